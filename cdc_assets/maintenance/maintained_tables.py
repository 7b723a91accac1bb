"""The tables of a source that are maintained, and which of their old versions somebody still has to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cdc_assets import names
from cdc_assets.maintenance.kept_quarantine import find_settled_records
from cdc_assets.maintenance.kept_windows import find_old_windows
from cdc_assets.maintenance.named_versions import find_named_versions
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed, ledger_counted, silver_committed
from cdc_assets.windowed.refine_windows import windows_of
from spark.delta.commits import fold_silver
from spark.delta.local_log import LOG, commit_at
from spark.lake.folder import open_folder
from spark.ledger.ledger_commits import Counted
from spark.maintenance.maintenance_spec import MaintenanceSpec
from spark.maintenance.needs import Need


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
    found = []
    for spec in _specs(lake, source):
        if open_folder(spec.path).has_files(LOG):
            name = spec.path.removeprefix(f"{root}/")
            own = replace(spec, time_travel=seconds, needed_seconds=needed, named=named.get(name, ()))
            found.append(MaintainedTable(name, own))
    return found


def _specs(lake: str, source: BaseSource) -> Iterator[MaintenanceSpec]:
    """What is of each table its own; that it is there is not said."""
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
    for each in windows_of(source):
        yield MaintenanceSpec(each.spec(lake).path)
        yield MaintenanceSpec(each.spec(lake).panes_path)


def _needs_of_bronze(lake: str, source: BaseSource, of_silver: Mapping[str, tuple[Need, ...]]) -> Iterator[Need]:
    """Tables that have not folded all of it read the commits since; the ledger counts a fold in the bronze of its time."""
    committed = bronze_committed(names.bronze_path(lake, source))
    if committed is None:
        return
    for table in source.tables:
        for path in _folding(lake, source, table):
            folded, place = silver_committed(path), path.removeprefix(f"{lake.rstrip('/')}/")
            if folded is None:
                continue
            topics = committed.of_table(names.table_name(table))
            if any(state.records_ahead_of(folded.topics.get(topic)) for topic, state in topics.items()):
                yield Need(max(0, folded.bronze_version), f"{place} has not folded what comes after it")
        for need in of_silver[table.name]:
            text = commit_at(names.silver_path(lake, source, table), need.version)
            fold = fold_silver([(need.version, text)])
            if fold is not None:
                yield Need(max(0, fold.bronze_version), need.reason)


def _folding(lake: str, source: BaseSource, table: Table) -> list[str]:
    history = [names.history_path(lake, source, table)] if table.history == "scd2" else []
    return [names.silver_path(lake, source, table), *history]


def _needs_of_silver(lake: str, source: BaseSource, table: Table, counted: Mapping[str, Counted]) -> tuple[Need, ...]:
    """The ledger reads a table as it was at the folds that it has not counted; a ledger that never ran needs nothing."""
    place = counted.get(names.table_name(table))
    folded = silver_committed(names.silver_path(lake, source, table)) if place is not None else None
    if place is None or folded is None or folded.operation_id == place.operation_id:
        return ()
    return (Need(place.silver_version, "the ledger has not counted what comes after it: cdc ledger --count"),)
