"""Maintenance of a source's tables in the lake, together with its backup: which they are, who still reads what of them,
what is done, and what falls behind.

Nothing goes that a kept cut, a window or a reader names; old records of bronze go only where the backup is proven to hold
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from cdc_assets.chain.windowed_results import windows_of
from cdc_assets.clients.delta_log import bronze_committed, ledger_counted, silver_committed, version_that_folded
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.proof.event_ledger import hops, places, read_windows
from cdc_assets.recovery.cut_manifest import read_cuts
from cdc_assets.recovery.old_bronze_records import find_old_records
from cdc_assets.recovery.past_records import remove_past
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError, MissingAddressError, RefusalError, SparkRunError, StoreError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.proof.ledger_contract import Counted
from spark.table.commit_metadata import fold_silver
from spark.table.delta_table import table_of
from spark.table.log_reader import LOG
from spark.table.needed_versions import NamedVersion, Need
from spark.table.table_folder import open_folder
from spark.upkeep.file_rewrite import MOST_SMALL
from spark.upkeep.maintenance_spec import Maintained, MaintenancePlan, MaintenanceSpec
from spark.upkeep.row_retention import OldRecords, OldWindows, SettledRecords
from spark.upkeep.table_maintenance import TIME_TRAVEL
from spark.upkeep.window_results import read_kept_results

if TYPE_CHECKING:
    from spark.upkeep.table_maintenance import Step


def find_named_versions(lake: str, source: BaseSource) -> dict[str, tuple[NamedVersion, ...]]:
    """By the tables' places below the lake, each version once."""
    versions_by_path: dict[str, dict[int, NamedVersion]] = {}
    for path, named in _versions_to_keep(lake, source):
        versions_by_path.setdefault(path.removeprefix(f"{lake.rstrip('/')}/"), {}).setdefault(named.version, named)
    return {path: tuple(versions.values()) for path, versions in versions_by_path.items()}


def _versions_to_keep(lake: str, source: BaseSource) -> Iterator[tuple[str, NamedVersion]]:
    for cut in read_cuts(lake, source):
        yield from ((entry.path, NamedVersion(entry.version, entry.table_id, f"cut {cut.cut}")) for entry in cut.entries)
    for windows in windows_of(source):
        # The next results are told from the version that the last ones are of, and these are proven against it.
        spec = windows.spec(lake)
        if (kept := read_kept_results(spec.path)) is not None:
            yield spec.silver_path, NamedVersion(kept.silver_version, "", f"windows {windows.name} are of it")
    for table in source.tables:
        # A history is proven against silver as it was when it had folded the same.
        if (version := _version_of_history(lake, source, table)) is not None:
            silver = names.silver_path(lake, source, table)
            yield silver, NamedVersion(version, "", f"the history of {names.table_name(table)} stands there")


def _version_of_history(lake: str, source: BaseSource, table: Table) -> int | None:
    if table.history != "scd2":
        return None
    silver, folded = names.silver_path(lake, source, table), silver_committed(names.history_path(lake, source, table))
    ahead = silver_committed(silver)
    if folded is None or ahead is None or ahead.topics == folded.topics:
        return None
    return version_that_folded(silver, folded)


_MICROSECONDS = 1_000_000


def find_settled_records(lake: str, source: BaseSource, table: Table) -> SettledRecords | None:
    """Which redriven records the quarantine may lose; None where the table keeps all of them, or has not been folded since."""
    keep, folded = table.quarantine.keep, silver_committed(names.silver_path(lake, source, table))
    if keep is None or folded is None:
        return None
    until = int((time.time() - keep.total_seconds()) * _MICROSECONDS)
    if table.history == "scd2":
        # It folds the keys of records anew that were redriven since; until then their rows have to tell which.
        history = silver_committed(names.history_path(lake, source, table))
        until = min(until, history.settled + 1) if history is not None else 0
    return SettledRecords(until, folded.version)


def find_old_windows(lake: str, source: BaseSource) -> OldWindows | None:
    """Which windows the ledger may lose; None where the source keeps all of them, or has no ledger yet."""
    counted = places(lake, source)
    if source.ledger.keep is None or not counted:
        return None
    until, kept = int(time.time() - source.ledger.keep.total_seconds()), set[tuple[str, int, str]]()
    for table in source.tables:
        name = names.table_name(table)
        if name not in counted:
            continue
        for hop in hops(read_windows(lake, source, table), counted[name], mirrored=names.is_mirrored(source)):
            kept |= {(name, int(window.start.timestamp()), window.op) for window in hop.differing}
    return OldWindows(until, frozenset(kept))


@dataclass(frozen=True)
class MaintainedTable:
    """A Delta table of the source; `name` is its place below the lake: `silver/world/city`."""

    name: str
    spec: MaintenanceSpec


def tables_in_lake(lake: str, source: BaseSource) -> list[MaintainedTable]:
    """Those that there are by now: bronze, each table's silver, history and quarantine, windows, the ledger, the cuts."""
    root, named = lake.rstrip("/"), find_named_versions(lake, source)
    seconds = source.maintenance.time_travel.total_seconds()
    needed = max(seconds, source.cuts.keep.total_seconds() if source.cuts else 0.0)
    tables = []
    for spec in _specs(lake, source):
        if open_folder(spec.path).has_files(LOG):
            name = spec.path.removeprefix(f"{root}/")
            own = replace(spec, time_travel=seconds, needed_seconds=needed, named=named.get(name, ()))
            tables.append(MaintainedTable(name, own))
    return tables


def _specs(lake: str, source: BaseSource) -> Iterator[MaintenanceSpec]:
    """One for each table that the source may have in the lake, whether it is there or not."""
    counted = ledger_counted(names.ledger_path(lake, source))
    of_silver = {table.name: _needs_of_silver(lake, source, table, counted) for table in source.tables}
    yield MaintenanceSpec(names.bronze_path(lake, source), needs=tuple(_needs_of_bronze(lake, source, of_silver)))
    for table in source.tables:
        silver = names.silver_path(lake, source, table)
        yield MaintenanceSpec(silver, needs=of_silver[table.name])
        yield MaintenanceSpec(names.history_path(lake, source, table))
        # Whoever folds the table writes its quarantine too, in silver's turn.
        settled = find_settled_records(lake, source, table)
        yield MaintenanceSpec(names.quarantine_path(lake, source, table), settled=settled, writers=silver)
    yield MaintenanceSpec(names.ledger_path(lake, source), old_windows=find_old_windows(lake, source))
    yield MaintenanceSpec(names.cuts_path(lake, source))
    for windows in windows_of(source):
        yield MaintenanceSpec(windows.spec(lake).path)
        yield MaintenanceSpec(windows.spec(lake).panes_path)


def _needs_of_bronze(lake: str, source: BaseSource, of_silver: Mapping[str, tuple[Need, ...]]) -> Iterator[Need]:
    """Tables that have not folded all of it read the commits since; the ledger counts a fold in the bronze of its time."""
    committed = bronze_committed(names.bronze_path(lake, source))
    if committed is None:
        return
    for table in source.tables:
        history = [names.history_path(lake, source, table)] if table.history == "scd2" else []
        for path in (names.silver_path(lake, source, table), *history):
            folded, table_name = silver_committed(path), path.removeprefix(f"{lake.rstrip('/')}/")
            if folded is None:
                continue
            topics = committed.of_table(names.table_name(table))
            if any(state.records_ahead_of(folded.topics.get(topic)) for topic, state in topics.items()):
                yield Need(max(0, folded.bronze_version), f"{table_name} has not folded what comes after it")
        for need in of_silver[table.name]:
            text = table_of(names.silver_path(lake, source, table)).user_metadata(need.version)
            fold = fold_silver([(need.version, text)])
            if fold is not None:
                yield Need(max(0, fold.bronze_version), need.reason)


def _needs_of_silver(lake: str, source: BaseSource, table: Table, counted: Mapping[str, Counted]) -> tuple[Need, ...]:
    """The ledger reads a table as it was at the folds that it has not counted; a ledger that never ran needs nothing."""
    counted_table = counted.get(names.table_name(table))
    folded = silver_committed(names.silver_path(lake, source, table)) if counted_table is not None else None
    if counted_table is None or folded is None or folded.operation_id == counted_table.operation_id:
        return ()
    return (Need(counted_table.silver_version, "the ledger has not counted what comes after it: cdc ledger --count"),)


SMALL_FILES = 8 * MOST_SMALL
GONE_SHARE = 0.5
SINCE_CHECKPOINT, EXPIRED_COMMITS = 300, 2_000
GARBAGE_BYTES = 1 << 30
HELD_SECONDS = 86_400.0


def what_is_behind(plan: MaintenancePlan) -> list[str]:
    """Sentences, each with its figure; none where all is well. A table that is not maintained from here is one too."""
    figures = plan.figures
    if figures is None:
        return [plan.left]
    is_held = plan.kept is not None and not plan.kept.reason.startswith(TIME_TRAVEL) and plan.kept_seconds > HELD_SECONDS
    all_rows = figures.rows + figures.dead_rows
    reasons = {
        f"{quantity(figures.small_files, 'small file')}, more than {SMALL_FILES}": figures.small_files > SMALL_FILES,
        f"of {quantity(all_rows, 'row')} {figures.dead_rows} are gone": figures.dead_rows > GONE_SHARE * max(1, all_rows),
        f"{quantity(figures.since_checkpoint, 'commit')} since the last checkpoint": figures.since_checkpoint > SINCE_CHECKPOINT,
        f"{quantity(plan.expire_commits, 'commit')} that nobody needs": plan.expire_commits > EXPIRED_COMMITS,
        f"{plan.remove_bytes >> 20} MiB that nobody needs": plan.remove_bytes > max(GARBAGE_BYTES, figures.bytes),
        f"held since {plan.kept_seconds / 3600:.0f} h: {plan.kept.reason if plan.kept else ''}": is_held,
    }
    return [sentence for sentence, holds in reasons.items() if holds]


FindOld: TypeAlias = Callable[[Chain[BaseSource]], tuple[OldRecords, Mapping[str, str]] | None]
_BUSY_SECONDS = 5.0


def plan_source(
    chain: Chain[BaseSource], wanted: Sequence[str] = (), find_old: FindOld | None = None
) -> Iterator[tuple[MaintainedTable, MaintenancePlan]]:
    """What maintenance would do now; `wanted` are names of tables, all where none is given. Nothing is changed.

    With `find_old` the plan has the records of the change log that would go; to prove them reads their backup.

    Raises:
        RefusalError: there is no table of such a name.
    """
    from spark.upkeep.table_maintenance import plan_table

    for table in _chosen(chain.platform.lake, chain.source, wanted):
        yield table, plan_table(_with_old_records(chain, table, find_old)[0])


def maintain_source(
    chain: Chain[BaseSource], wanted: Sequence[str] = (), find_old: FindOld | None = None
) -> Iterator[tuple[MaintainedTable, Maintained]]:
    """Do it, table after table. `find_old` tells which records of the change log may go, and of which tables none may.

    Raises:
        TableBusyError: somebody else maintains the source.
        RefusalError: there is no table of such a name.
        FailuresError: at the end, naming the tables that failed.
    """
    from spark.upkeep.table_maintenance import maintain

    failures: dict[str, str] = {}

    def by_spark(step: Step, path: str) -> str:
        try:
            return chain.platform.spark().run(step, path)
        except (SparkRunError, MissingAddressError) as error:
            return str(error)[:300]

    with table_lock("maintenance", chain.source.name, "all", deadline=_BUSY_SECONDS):
        for table in _chosen(chain.platform.lake, chain.source, wanted):
            try:
                spec, left = _with_old_records(chain, table, find_old)
                done = maintain(spec, by_spark)
            except Exception as error:  # noqa: BLE001 - one table's failure is its own, and told when the others are done
                failures[table.name] = f"{type(error).__name__}: {str(error)[:500]}"
                continue
            yield table, replace(done, given_up={**done.given_up, **left})
    if failures:
        raise FailuresError.of_tables("maintenance", failures)


def _with_old_records(
    chain: Chain[BaseSource], table: MaintainedTable, find_old: FindOld | None
) -> tuple[MaintenanceSpec, dict[str, str]]:
    """The change log's spec with the records that may go, and of which tables none may, and why."""
    if find_old is None or table.spec.path != chain.bronze_path:
        return table.spec, {}
    try:
        old_records = find_old(chain)
    except StoreError as error:
        return table.spec, {"old records": str(error)}
    if old_records is None:
        return table.spec, {}
    old, left = old_records
    return replace(table.spec, old_records=old), {f"old records of {name}": reason for name, reason in left.items()}


def _chosen(lake: str, source: BaseSource, wanted: Sequence[str]) -> list[MaintainedTable]:
    tables = tables_in_lake(lake, source)
    if unknown := sorted(set(wanted) - {table.name for table in tables}):
        there = ", ".join(table.name for table in tables) or "none yet"
        raise RefusalError(f"{source.name} has no table {', '.join(unknown)} in {lake}; there are: {there}")
    return [table for table in tables if not wanted or table.name in wanted]


def plan_with_backup(chain: Chain[BaseSource], wanted: Sequence[str] = ()) -> Iterator[tuple[MaintainedTable, MaintenancePlan]]:
    """What `maintain_with_backup` would do, table after table; nothing is changed."""
    yield from plan_source(chain, wanted, find_old_records)


def maintain_with_backup(chain: Chain[BaseSource], wanted: Sequence[str] = ()) -> Iterator[tuple[MaintainedTable, Maintained]]:
    """Table after table, as maintain_source, which see for what is raised."""
    yield from maintain_source(chain, wanted, find_old_records)
    remove_past(chain.platform.lake, chain.source)
