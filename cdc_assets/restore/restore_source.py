"""A source's tables from its backup: bronze first, then what the ordinary jobs make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.backup.platform import newest_part
from cdc_assets.errors import NothingToRunError
from cdc_assets.quantity import quantity
from cdc_assets.quarantine.given_up import give_up_again
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.restore.chosen_rows import check_keys, keep_chosen
from cdc_assets.restore.column_history import begin_history, begin_silver
from cdc_assets.restore.restore_request import RESTORED, THERE, RestoredTable, RestoreRequest
from cdc_assets.restore.restored_bronze import restore_bronze
from cdc_assets.silver.fold_tables import fold_tables
from cdc_assets.tables.fold_specs import catalogue_or_last_known, history_spec, silver_spec

if TYPE_CHECKING:
    from spark.specs import JobResult

Say = Callable[[str], None]


def tables_of(source: BaseSource, wanted: Sequence[str]) -> list[Table]:
    """The declared tables of these short names; all without.

    Raises:
        NothingToRunError: the source declares no such table.
    """
    there = {names.table_name(table): table for table in source.tables}
    if unknown := sorted(set(wanted) - set(there)):
        raise NothingToRunError(f"{source.name} declares no table {', '.join(unknown)}; there are: {', '.join(there)}")
    return [table for name, table in there.items() if not wanted or name in wanted]


def restore_source(platform: Platform, request: RestoreRequest, say: Say) -> list[RestoredTable]:
    """Bronze, silver and histories of the tables that are whole; what is there already is not made again.

    Raises:
        RestoreError, StoreError: as restore_bronze.
        DatabaseError: the source does not tell its columns; bronze is restored, and the same call goes on from there.
        TableFailuresError: some tables could not be folded.
    """
    if request.wanted:
        check_keys(platform, request, say)
    outcomes = restore_bronze(request, say)
    done = {each.table for each in outcomes if each.outcome in (RESTORED, THERE)}
    tables = [table for table in request.tables if names.table_name(table) in done]
    fold_restored(platform, request, tables, say)
    if request.wanted and tables:
        say(f"{names.table_name(tables[0])}: {quantity(keep_chosen(platform, request, say), 'row')} of the keys in silver")
    return outcomes


def fold_restored(platform: Platform, request: RestoreRequest, tables: Sequence[Table], say: Say) -> dict[str, JobResult]:
    """Silver and histories of the request's lake, by the jobs that make those of every lake."""
    committed = bronze_committed(request.path)
    if committed is None or not tables:
        return {}
    catalogue = catalogue_or_last_known(platform, request.source, tables, say)
    found = {}
    there = platform_of_lake(platform, request.lake)
    for table in tables:
        for what, begin in (("silver", begin_silver), ("the history", begin_history)):
            if table.id in catalogue and begin(there, request.store, request.source, table, catalogue[table.id]):
                say(f"{names.table_name(table)}: {what} begins with the columns that it had")
    for table, (result, _) in fold_tables(there, request.source, tables, catalogue, committed.version, say):
        name = names.table_name(table)
        found[name] = result
        say(f"{name}: silver has {quantity(result.rows_read, 'record')} folded in {result.seconds:.1f} s")
    _give_up_restored(platform, request, tables, say)
    return found


def _give_up_restored(platform: Platform, request: RestoreRequest, tables: Sequence[Table], say: Say) -> None:
    """What a person has given up in quarantine, given up again. Whoever restores up to a moment gets what is decided now."""
    decided = newest_part(request.store, request.source.name, "given_up")
    wanted = [table for table in tables if names.table_name(table) in decided]
    catalogue = catalogue_or_last_known(platform, request.source, wanted, say) if wanted else {}
    there = platform_of_lake(platform, request.lake)
    for table in wanted:
        name = names.table_name(table)
        spec = silver_spec(request.lake, request.source, table, catalogue[table.id])
        history = history_spec(request.lake, request.source, table, spec) if table.history == "scd2" else None
        found = give_up_again(there, spec, history, decided[name])
        say(f"{name}: {quantity(found, 'record')} in quarantine given up, as decided before")


def platform_of_lake(platform: Platform, lake: str) -> Platform:
    """The same outside systems with another lake."""
    told = {field.name: getattr(platform, field.name) for field in fields(Platform) if field.init}
    return Platform(**{**told, "lake_root": lake})
