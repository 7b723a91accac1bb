"""Compares tables of one source with silver, all at one cut of the source's log.

1. Silver's version and what bronze has committed are read: all of it was delivered before the cut.
2. One snapshot of the source; each table's rows and hashes are summed by bucket, in the database.
3. Meanwhile a marker carries the cut to offsets of the mirrored topics (`log_position`).
4. As soon as it is there silver is brought to the cut (spark.reconcile.at_cut) and summed the same way.
5. Buckets that differ are drilled down to keys, at the same snapshot; each suspect is folded again from all of bronze,
   which decides it and says where the damage is.

Of two ranges of keys (spark.reconcile.own_order) rows are compared one by one, without buckets: step 2 reads the keys and hashes
of the source's range, step 4 silver's rows of these keys and those of its own range, and the source is asked, in the same
snapshot, which of the latter it has.

Steps 2 and 4 are beside each other: the database and Spark have no need of each other's sums. Small tables are summed together,
once all of them are read at the source (lake_sums).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import ON_PURPOSE, CdcAssetsError, DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.reconcile import drill_down, lake, unordered_keys
from cdc_assets.reconcile.causes import with_causes
from cdc_assets.reconcile.lake import ComparedTable
from cdc_assets.reconcile.lake_sums import sum_alone, sum_small
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.reconcile.slices import WHOLE
from cdc_assets.reconcile.table_comparison import Carried, TableComparison
from cdc_assets.reconcile.verdict import DIFFERENT, EQUAL
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.resources.databases.cuts import SourceCut, open_cut
from cdc_assets.resources.delta_log import bronze_committed, silver_state
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.source_catalogue import columns_as_declared
from cdc_assets.volumetry.log_position import LogPosition, carry_to_lake

if TYPE_CHECKING:
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice

STATEMENT_TIMEOUT = 600.0
# Rows are written by spark's rules here as well: they tell of a key that has become another since its range was chosen.
_AT_ONCE = 3


@dataclass(frozen=True)
class TableToCompare:
    """One table before its source is read: what the lake has, its columns (None: it is gone), and the part that is asked for."""

    table: Table
    read: lake.Read
    catalogue: CatalogueTable | None
    part: Slice | TwoRanges
    view: bool = False


def can_reconcile(source: BaseSource) -> bool:
    """Whether the source's rows can be compared at an exact cut."""
    return kind_of(source).cut is not None and (source.captured is None or source.captured.database.tells_snapshots)


def compare(
    platform: Platform, source: CapturedSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name. What stands in the way of comparing is a result as well, never an exception."""
    try:
        return compare_at_cut(platform, source, tables, scope)
    except CdcAssetsError as error:
        return {names.table_name(t): not_compared(source, t, str(error)) for t in tables}


def compare_at_cut(
    platform: Platform, source: CapturedSource, tables: Sequence[Table], scope: ComparisonScope
) -> dict[str, TableResult]:
    """By short table name; what stands in the way of one table is its result.

    Raises:
        CdcAssetsError: there is no cut, or the chain does not carry its place into the lake.
    """
    from spark.reconcile.own_order import TwoRanges

    results: dict[str, TableResult] = {}
    states = {t.name: silver_state(names.silver_path(platform.lake, source, t)) for t in tables}
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    database = platform.database(source)
    with open_cut(database, statement_timeout=STATEMENT_TIMEOUT) as cut:
        catalogue = columns_as_declared(source, database.tables([t.id for t in tables]))
        works: list[TableComparison] = []
        with ThreadPoolExecutor(1) as carrying, ThreadPoolExecutor(_AT_ONCE) as pool:
            carried: Future[Carried] | None = None
            for table in tables:
                try:
                    part = scope.slices.get(names.table_name(table), WHOLE)
                    asked = TableToCompare(
                        table, (states[table.name], committed), catalogue.get(table.id), part, scope.method.view
                    )
                    work = _prepare(platform, source, asked)
                    carried = carried or carrying.submit(_carry, platform, source, database, scope.timeout)
                    if not isinstance(part, TwoRanges) and not work.is_small:
                        work.ours = pool.submit(sum_alone, work, cut, carried).result
                    _sum_source(work, cut)
                    works.append(work)
                except ON_PURPOSE as error:
                    results[names.table_name(table)] = not_compared(source, table, str(error))
            if carried is None or not works:
                return results
            there = carried.result()
            sum_small(pool, [w for w in works if w.ours is None and not isinstance(w.part, TwoRanges)], cut, carried)
            in_lake = partial(_in_lake_or_why_not, source, cut, there)
            # Behind all sums in the pool: whoever waits for one waits for what has begun.
            results |= {names.table_name(w.compared.table): r for w, r in zip(works, pool.map(in_lake, works), strict=True)}
    return with_causes(platform, source, catalogue, results)


def _in_lake_or_why_not(source: CapturedSource, cut: SourceCut, there: Carried, work: TableComparison) -> TableResult:
    work.seconds["carry"] = round(there.seconds, 3)
    try:
        return _in_lake(work, cut, there.position)
    except ON_PURPOSE as error:
        return not_compared(source, work.compared.table, str(error))


def _carry(platform: Platform, source: CapturedSource, database: SourceDatabase, timeout: float) -> Carried:
    started = time.monotonic()
    position = carry_to_lake(platform, source, deadline=timeout, database=database)
    return Carried(position, time.monotonic() - started)


def _prepare(platform: Platform, source: CapturedSource, asked: TableToCompare) -> TableComparison:
    table = asked.table
    if asked.catalogue is None:
        raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
    state, committed = lake.existing(source, table, asked.read)
    text = lake.row_text(platform, source, table, asked.catalogue)
    return TableComparison(ComparedTable(platform, source, table, text, asked.view), state, committed, asked.part)


def _sum_source(work: TableComparison, cut: SourceCut) -> None:
    from spark.reconcile.own_order import TwoRanges

    started, compared = time.monotonic(), work.compared
    if isinstance(work.part, TwoRanges):
        work.in_range = cut.in_range(compared.table.id, compared.text, work.part.source)
    else:
        work.source = cut.digest(compared.table.id, compared.text, work.part)
    work.seconds["source"] = round(time.monotonic() - started, 3)


def _in_lake(work: TableComparison, cut: SourceCut, position: LogPosition) -> TableResult:
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import slice_text

    if isinstance(work.part, TwoRanges):
        return _two_ranges(work, work.part, cut, position)
    assert work.ours is not None
    compared, (task, ours, seconds) = work.compared, work.ours()
    work.seconds["lake"] = round(seconds, 3)
    differing = sorted(b for b in {*ours, *work.source} if ours.get(b) != work.source.get(b))
    result = TableResult(
        table=f"{compared.source.name}/{names.table_name(compared.table)}",
        verdict=DIFFERENT if differing else EQUAL,
        snapshot=cut.text,
        lsn=cut.lsn,
        silver_version=work.state.version,
        source_rows=sum(rows for rows, _ in work.source.values()),
        silver_rows=sum(rows for rows, _ in ours.values()),
        # A bucket that a statement loses on one side is lost on neither by another.
        counted=cut.count(compared.table.id, compared.text, work.part),
        set_aside=lake.rows_in_doubt(compared),
        buckets=len({*ours, *work.source}),
        buckets_differing=len(differing),
        share=slice_text(work.part),
        not_compared=compared.text.not_compared,
    )
    if differing:
        started = time.monotonic()
        result = drill_down.down(compared, task, cut, result, differing)
        work.seconds["drill"] = round(time.monotonic() - started, 3)
    return replace(result, seconds=dict(work.seconds))


def _two_ranges(work: TableComparison, part: TwoRanges, cut: SourceCut, position: LogPosition) -> TableResult:
    """Rows of the source's range, one by one; of silver's range the keys that the source has not."""
    compared = work.compared
    task = lake.task(compared, (work.state, work.committed), position, cut.in_lake)
    started = time.monotonic()
    there = unordered_keys.OwnOrderTable(cut, compared.table.id, compared.text)
    ours = unordered_keys.at_cut(compared.platform.spark(), task, there, part, work.in_range)
    work.seconds["lake"] = round(time.monotonic() - started, 3)
    result = TableResult(
        table=f"{compared.source.name}/{names.table_name(compared.table)}",
        verdict=EQUAL if ours.rows == work.in_range else DIFFERENT,
        snapshot=cut.text,
        lsn=cut.lsn,
        silver_version=work.state.version,
        source_rows=work.in_range.total(),
        silver_rows=ours.compared,
        looked_up=ours.looked_up,
        set_aside=lake.rows_in_doubt(compared),
        share=part.text,
        not_compared=compared.text.not_compared,
    )
    if not result.equal:
        started = time.monotonic()
        sides = drill_down.HashedSides(work.in_range, ours.rows)
        result = drill_down.of_keys(compared, task, cut, result, sides)
        work.seconds["drill"] = round(time.monotonic() - started, 3)
    return replace(result, seconds=dict(work.seconds))
