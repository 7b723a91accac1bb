"""`--keys`, `--from-key`, `--to-key`: of a table that is restored beside the lake, rows of these keys alone stay.

Bronze is restored whole, as the fold needs all events of a key that has changed. What was folded besides goes by one commit each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import RestoreError
from cdc_assets.resources.platform import Platform
from cdc_assets.restore.restore_request import RestoreRequest
from cdc_assets.tables.fold_specs import catalogue_or_last_known, silver_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from spark.specs import SilverSpec


def check_keys(platform: Platform, request: RestoreRequest, say: Callable[[str], None]) -> None:
    """Before an hour of bronze: they are keys of the table.

    Raises:
        RestoreError: they are not, or it has none, or several tables are asked for.
        DatabaseError: the source does not tell its columns.
    """
    from spark.errors import ReplayError
    from spark.replay.only_keys import check_wanted

    options = request.wanted.options
    if len(request.tables) != 1:
        raise RestoreError(f"{options} are of one table: name it")
    (spec, _) = _specs(platform, request, say)
    if not spec.keys:
        raise RestoreError(f"table {spec.table} has no key: restore all of it, without {options}")

    def reason_against(session: SparkSession, asked: SilverSpec) -> str:
        try:
            check_wanted(session, asked, request.wanted)
        except ReplayError as error:
            return str(error)
        return ""

    if wrong := platform.spark().run(reason_against, spec):
        raise RestoreError(f"{options}: {wrong}")


def keep_chosen(platform: Platform, request: RestoreRequest, say: Callable[[str], None]) -> int:
    """The other rows go; how many stay in silver."""
    from spark.replay.only_keys import keep_only

    spec, history = _specs(platform, request, say)

    def keep(session: SparkSession, asked: SilverSpec) -> int:
        return keep_only(session, asked, request.wanted, (asked.path, history))

    return platform.spark().run(keep, spec)


def _specs(platform: Platform, request: RestoreRequest, say: Callable[[str], None]) -> tuple[SilverSpec, str]:
    (table,) = request.tables
    catalogue = catalogue_or_last_known(platform, request.source, [table], say)
    if table.id not in catalogue:
        raise RestoreError(
            f"{request.source.name} does not tell the columns of {names.table_name(table)}: its keys are not known"
        )
    spec = silver_spec(request.lake, request.source, table, catalogue[table.id])
    return spec, names.history_path(request.lake, request.source, table)
