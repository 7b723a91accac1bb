"""One pass of silver: the small tables that are behind by one job; each other one is a piece of work of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cdc_assets import names
from cdc_assets.bronze.append import Say
from cdc_assets.errors import TableBusyError
from cdc_assets.preflight.table_models import why_held
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.silver.fold_tables import Results, fold_small, fold_table
from cdc_assets.tables.fold_refusals import absent_table
from cdc_assets.tables.fold_specs import catalogue_or_last_known
from spark.specs import JobResult

_LEVELS = frozenset({"positions_remembered"})
"""What a result tells as it is then; all else counts."""


@dataclass(frozen=True)
class FoldedTable:
    """One table after a fold, and what it was folded by."""

    table: Table
    found: CatalogueTable
    results: Results

    @property
    def events(self) -> int:
        """That were folded into silver."""
        return self.results[0].rows_read

    def __add__(self, later: FoldedTable) -> FoldedTable:
        """Both as one fold."""
        (first, versions), (second, newer) = self.results, later.results
        history = add_results(versions, newer) if versions and newer else newer or versions
        return replace(later, results=(add_results(first, second), history))


@dataclass
class SilverPass:
    """What became of it."""

    done: list[FoldedTable] = field(default_factory=list)
    long: dict[str, Callable[[], FoldedTable]] = field(default_factory=dict)
    """What is still to be done, by table: each may take long."""
    failed: dict[str, str] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)


def fold_once(platform: Platform, source: BaseSource, tables: Sequence[Table], bronze_version: int, say: Say) -> SilverPass:
    """As the silver asset, up to a version of bronze.

    Raises:
        CdcAssetsError: the source's catalogue cannot be read.
    """
    result = SilverPass()
    catalogue = catalogue_or_last_known(platform, source, tables, say)
    held = why_held(platform, source, tables, catalogue)
    result.failed |= {names.table_name(table): held[table.id] for table in tables if table.id in held}
    tables = [table for table in tables if table.id not in held]
    small = fold_small(platform, source, tables, catalogue, bronze_version, say)
    for table in tables:
        short, found = names.table_name(table), catalogue.get(table.id)
        if found is None:
            result.failed[short] = absent_table(source, table)
        elif table.id in small and table.history != "scd2":
            result.done.append(FoldedTable(table, found, (small[table.id], None)))
        elif _is_busy(source, short):
            result.busy.add(short)
        else:
            result.long[short] = partial(_fold, platform, source, table, found, bronze_version, small.get(table.id))
    return result


def _fold(
    platform: Platform, source: BaseSource, table: Table, found: CatalogueTable, version: int, done: JobResult | None
) -> FoldedTable:
    return FoldedTable(table, found, fold_table(platform, source, table, found, version, done))


def _is_busy(source: BaseSource, short: str) -> bool:
    try:
        with table_lock("silver", source.name, short, deadline=0.0):
            return False
    except TableBusyError:
        return True


def add_results(first: JobResult, second: JobResult) -> JobResult:
    """Two folds of a table as one."""
    ops = {op: first.by_op.get(op, 0) + second.by_op.get(op, 0) for op in {*first.by_op, *second.by_op}}
    detail = dict(first.detail)
    for name, value in second.detail.items():
        known = detail.get(name)
        counts = name not in _LEVELS and isinstance(value, int) and isinstance(known, int)
        detail[name] = known + value if counts else value
    return replace(
        second,
        version=first.version if second.version is None else second.version,
        rows_read=first.rows_read + second.rows_read,
        rows_inserted=first.rows_inserted + second.rows_inserted,
        rows_updated=first.rows_updated + second.rows_updated,
        rows_deleted=first.rows_deleted + second.rows_deleted,
        seconds=round(first.seconds + second.seconds, 3),
        by_op=ops,
        detail=detail,
    )
