"""A source's tables from its backup, as a person or a job wants them: bronze first, then what the ordinary jobs make of it;
of a table that is restored beside the lake, rows of chosen keys alone may stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_assets.backup.platform_log import newest_section
from cdc_assets.chain.fold_specs import catalogue_or_last_known, history_spec, silver_spec
from cdc_assets.chain.quarantine import give_up_again
from cdc_assets.chain.silver_fold import fold_tables
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.recovery.backed_up_table import BackedUpTable
from cdc_assets.recovery.column_history import begin_history, begin_silver
from cdc_assets.recovery.restore_point import RESTORED, THERE, RestoredTable, RestoreRequest, restore_points
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.upkeep.replay_spec import ALL_KEYS, WantedKeys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.specs import JobResult, SilverSpec


def check_keys(platform: Platform, request: RestoreRequest, say: Say) -> None:
    """Before an hour of bronze: they are keys of the table.

    Raises:
        RefusalError: they are not, or it has none, or several tables are asked for.
        DatabaseError: the source does not tell its columns.
    """
    from spark.errors import JobRefusedError
    from spark.upkeep.chosen_keys import check_wanted

    options = request.keys.options
    if len(request.tables) != 1:
        raise RefusalError(f"{options} are of one table: name it")
    (spec, _) = _specs(platform, request, say)
    if not spec.keys:
        raise RefusalError(f"table {spec.table} has no key: restore all of it, without {options}")

    def reason_against(session: SparkSession, asked: SilverSpec) -> str:
        try:
            check_wanted(session, asked, request.keys)
        except JobRefusedError as error:
            return str(error)
        return ""

    if wrong := platform.spark().run(reason_against, spec):
        raise RefusalError(f"{options}: {wrong}")


def keep_chosen(platform: Platform, request: RestoreRequest, say: Say) -> int:
    """Remove the other rows from silver and history; how many stay in silver.

    `--keys`, `--from-key`, `--to-key`: of a table that is restored beside the lake, rows of these keys alone stay. Bronze is
    restored whole, as the fold needs all events of a key that has changed. What was folded besides goes by one commit each.
    """
    from spark.upkeep.chosen_keys import keep_only

    spec, history = _specs(platform, request, say)

    def keep(session: SparkSession, asked: SilverSpec) -> int:
        return keep_only(session, asked, request.keys, (asked.path, history))

    return platform.spark().run(keep, spec)


def _specs(platform: Platform, request: RestoreRequest, say: Say) -> tuple[SilverSpec, str]:
    (table,) = request.tables
    catalogue = catalogue_or_last_known(Chain(platform, request.source), [table], say)
    if table.id not in catalogue:
        raise RefusalError(
            f"{request.source.name} does not tell the columns of {names.table_name(table)}: its keys are not known"
        )
    spec = silver_spec(request.lake, request.source, table, catalogue[table.id])
    return spec, names.history_path(request.lake, request.source, table)


def tables_of(source: BaseSource, wanted: Sequence[str]) -> list[Table]:
    """The declared tables of these short names; all without. Raises RefusalError: the source declares no such table."""
    there = {names.table_name(table): table for table in source.tables}
    if unknown := sorted(set(wanted) - set(there)):
        raise RefusalError(f"{source.name} declares no table {', '.join(unknown)}; there are: {', '.join(there)}")
    return [table for name, table in there.items() if not wanted or name in wanted]


def restore_source(platform: Platform, request: RestoreRequest, say: Say) -> list[RestoredTable]:
    """Bronze, silver and histories of the tables that are whole; what is there already is not made again.

    Raises:
        RefusalError, StoreError: as restore_bronze.
        DatabaseError: the source does not tell its columns; bronze is restored, and the same call goes on from there.
        FailuresError: some tables could not be folded.
    """
    if request.keys:
        check_keys(platform, request, say)
    outcomes = restore_bronze(request, say)
    done = {outcome.table for outcome in outcomes if outcome.outcome in (RESTORED, THERE)}
    tables = [table for table in request.tables if names.table_name(table) in done]
    fold_restored(platform, request, tables, say)
    if request.keys and tables:
        say(f"{names.table_name(tables[0])}: {quantity(keep_chosen(platform, request, say), 'row')} of the keys in silver")
    return outcomes


def fold_restored(platform: Platform, request: RestoreRequest, tables: Sequence[Table], say: Say) -> dict[str, JobResult]:
    """Silver and histories of the request's lake, by the jobs that make those of every lake."""
    committed = bronze_committed(request.path)
    if committed is None or not tables:
        return {}
    catalogue = catalogue_or_last_known(Chain(platform, request.source), tables, say)
    results = {}
    there = platform_of_lake(platform, request.lake)
    for table in tables:
        for what, begin in (("silver", begin_silver), ("the history", begin_history)):
            if table.id in catalogue and begin(there, request.store, request.source, table, catalogue[table.id]):
                say(f"{names.table_name(table)}: {what} begins with the columns that it had")
    for table, (result, _) in fold_tables(Chain(there, request.source), tables, catalogue, committed.version, say):
        name = names.table_name(table)
        results[name] = result
        say(f"{name}: silver has {quantity(result.rows_read, 'record')} folded in {result.seconds:.1f} s")
    _give_up_restored(platform, request, tables, say)
    return results


def _give_up_restored(platform: Platform, request: RestoreRequest, tables: Sequence[Table], say: Say) -> None:
    # What a person has given up in quarantine stays so: also a restore up to an earlier moment gets what is decided now.
    decided = newest_section(request.store, request.source.name, "given_up")
    decided_tables = [table for table in tables if names.table_name(table) in decided]
    catalogue = catalogue_or_last_known(Chain(platform, request.source), decided_tables, say) if decided_tables else {}
    there = platform_of_lake(platform, request.lake)
    for table in decided_tables:
        name = names.table_name(table)
        spec = silver_spec(request.lake, request.source, table, catalogue[table.id])
        history = history_spec(request.lake, request.source, table, spec) if table.history == "scd2" else None
        given_up = give_up_again(there, spec, history, decided[name])
        say(f"{name}: {quantity(given_up, 'record')} in quarantine given up, as decided before")


def platform_of_lake(platform: Platform, lake: str) -> Platform:
    """The same outside systems with another lake."""
    platform_fields = {field.name: getattr(platform, field.name) for field in fields(Platform) if field.init}
    return Platform(**{**platform_fields, "lake_root": lake})


@dataclass(frozen=True)
class RestoreWish:
    """Tables by short name (all without), into another lake or where none is, up to a point; `keys`: of one table alone."""

    tables: tuple[str, ...] = ()
    into: str | None = None
    to: str | None = None
    skip_damaged: bool = False
    keys: WantedKeys = ALL_KEYS


def make_request(chain: Chain[BaseSource], wish: RestoreWish) -> RestoreRequest:
    """Listings at most are read for it.

    Raises:
        RefusalError: the source declares no such table.
        RefusalError: there is no backup, no such point, or what is wished does not go together.
        BackupError, StoreError: a cut cannot be read.
    """
    if chain.source.backup is None:
        raise RefusalError(
            f"source {chain.source.name} declares no backup: there is nothing to restore it from (backup: in its file)"
        )
    _check_wanted(wish)
    chosen, store = tables_of(chain.source, wish.tables), chain.platform.store(chain.source.backup.store)
    backups: dict[str, BackedUpTable] = {}
    return RestoreRequest(
        chain.source,
        chosen,
        store,
        _lake(chain.platform, wish.into),
        points=restore_points(store, chain.source, chosen, wish.to, backups),
        skip_damaged=wish.skip_damaged,
        is_successor=wish.into is None,
        keys=wish.keys,
        backups=backups,
    )


def _check_wanted(wish: RestoreWish) -> None:
    keys = wish.keys
    if keys and (wish.into is None or len(wish.tables) != 1):
        raise RefusalError(
            "keys are of one table beside the lake: cdc restore SOURCE TABLE --into FOLDER --keys KEY, or with --from-key KEY "
            "--to-key KEY in place of --keys"
        )
    if keys.single and keys.is_range:
        raise RefusalError(
            "give single keys (--keys) or a range of them (--from-key, --to-key), not both; name another --into for each"
        )


def _lake(platform: Platform, into: str | None) -> str:
    if into is None:
        return platform.lake
    lake = settings.check_lake(into if "://" in into else str(Path(into).absolute()))
    if lake == platform.lake:
        raise RefusalError(f"--into {into} is the lake itself: without --into its tables are restored where there are none")
    return lake
