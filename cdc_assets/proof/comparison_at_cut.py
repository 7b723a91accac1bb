"""Compares tables of one source with silver, all at one cut of the source's log, while both move; and how rows are compared
where that is not as the source declares, or not whole tables.

1. Silver's version and what bronze has committed are read: all of it was delivered before the cut.
2. One snapshot of the source; each table's rows and hashes are summed by bucket, in the database.
3. Meanwhile a marker carries the cut to offsets of the mirrored topics (`log_position`).
4. As soon as it is there silver is brought to the cut (spark.proof.table_at_cut) and summed the same way.
5. Buckets that differ are drilled down to keys, at the same snapshot; each suspect is folded again from all of bronze,
   which decides it and says where the damage is.

Of two ranges of keys (spark.proof.key_order) rows are compared one by one, without buckets: step 2 reads the keys and
hashes of the source's range, step 4 silver's rows of these keys and those of its own range, and the source is asked, in the
same snapshot, which of the latter it has.

Steps 2 and 4 are beside each other: the database and Spark have no need of each other's sums. Small tables are summed
together, once all of them are read at the source (differing_rows.sum_small).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.capture.log_position import LogPosition, carry_to_lake
from cdc_assets.capture.source_columns import columns_as_declared
from cdc_assets.clients.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.delta_log import bronze_committed, silver_state
from cdc_assets.clients.kind_clients import clients_of, open_cut
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import compared_slices, differing_rows
from cdc_assets.proof.compared_slices import WHOLE
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, TableResult, not_compared, with_causes
from cdc_assets.proof.differing_rows import Carried, ComparedTable, TableComparison, sum_alone, sum_small
from cdc_assets.registry import names
from cdc_assets.registry.errors import ON_PURPOSE, CdcAssetsError, DatabaseError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import Slice


@dataclass(frozen=True)
class ComparisonMethod:
    """In two steps although the source has an exact cut, with which standby (`host:port`); `view`: not silver's rows, but those
    of the view of now, which needs bronze alone to have come so far."""

    two_step: bool = False
    standby: str | None = None
    view: bool = False


AS_DECLARED = ComparisonMethod()
OF_VIEW = ComparisonMethod(view=True)


@dataclass(frozen=True)
class ComparisonScope:
    """What one comparison of a source's tables looks at: `slices` by short table name, other tables whole; `timeout` in seconds,
    which the chain may take to carry the position into the lake."""

    slices: Mapping[str, Slice | TwoRanges] = field(default_factory=dict)
    timeout: float = 300.0
    method: ComparisonMethod = AS_DECLARED

    @property
    def shares(self) -> dict[str, Slice]:
        """The slices where rows are not read at a cut, which two ranges need."""
        from spark.proof.key_order import TwoRanges

        return {name: table_slice for name, table_slice in self.slices.items() if not isinstance(table_slice, TwoRanges)}


WHOLE_TABLES = ComparisonScope()


STATEMENT_TIMEOUT = 600.0
# Rows are written by spark's rules here as well: they tell of a key that has become another since its range was chosen.
_AT_ONCE = 3


@dataclass(frozen=True)
class TableToCompare:
    """One table before its source is read: what the lake has, its columns (None: it is gone), and the part that is asked for."""

    table: Table
    read: differing_rows.LakeRead
    catalogue: CatalogueTable | None
    part: Slice | TwoRanges
    view: bool = False


def can_reconcile(source: BaseSource) -> bool:
    """Whether the source's rows can be compared at an exact cut."""
    return clients_of(source.kind_name).cut is not None and (source.captured is None or source.captured.database.tells_snapshots)


def compare(
    chain: Chain[CapturedSource], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name. What stands in the way of comparing is a result as well, never an exception."""
    try:
        return compare_at_cut(chain, tables, scope)
    except CdcAssetsError as error:
        return {names.table_name(t): not_compared(chain.source, t, str(error)) for t in tables}


def compare_at_cut(chain: Chain[CapturedSource], tables: Sequence[Table], scope: ComparisonScope) -> dict[str, TableResult]:
    """By short table name; what stands in the way of one table is its result.

    Raises:
        CdcAssetsError: there is no cut, or the chain does not carry its place into the lake.
    """
    from spark.proof.key_order import TwoRanges

    results: dict[str, TableResult] = {}
    states = {t.name: silver_state(chain.silver_path(t)) for t in tables}
    committed = bronze_committed(chain.bronze_path)
    database = chain.platform.database(chain.source)
    with open_cut(database, statement_timeout=STATEMENT_TIMEOUT) as cut:
        catalogue = columns_as_declared(chain.source, database.tables([t.id for t in tables]))
        works: list[TableComparison] = []
        with ThreadPoolExecutor(1) as carrying, ThreadPoolExecutor(_AT_ONCE) as pool:
            carried: Future[Carried] | None = None
            for table in tables:
                try:
                    compared_slice = scope.slices.get(names.table_name(table), WHOLE)
                    to_compare = TableToCompare(
                        table, (states[table.name], committed), catalogue.get(table.id), compared_slice, scope.method.view
                    )
                    comparison = _prepare(chain, to_compare)
                    carried = carried or carrying.submit(_carry, chain, database, scope.timeout)
                    if not isinstance(compared_slice, TwoRanges) and not comparison.is_small:
                        comparison.ours = pool.submit(sum_alone, comparison, cut, carried).result
                    _sum_source(comparison, cut)
                    works.append(comparison)
                except ON_PURPOSE as error:
                    results[names.table_name(table)] = not_compared(chain.source, table, str(error))
            if carried is None or not works:
                return results
            there = carried.result()
            sum_small(pool, [w for w in works if w.ours is None and not isinstance(w.part, TwoRanges)], cut, carried)
            in_lake = partial(_in_lake_or_why_not, chain.source, cut, there)
            # Behind all sums in the pool: whoever waits for one waits for what has begun.
            results |= {names.table_name(w.compared.table): r for w, r in zip(works, pool.map(in_lake, works), strict=True)}
    return with_causes(chain, catalogue, results)


def _in_lake_or_why_not(source: CapturedSource, cut: SourceCut, there: Carried, comparison: TableComparison) -> TableResult:
    comparison.seconds["carry"] = round(there.seconds, 3)
    try:
        return _in_lake(comparison, cut, there.position)
    except ON_PURPOSE as error:
        return not_compared(source, comparison.compared.table, str(error))


def _carry(chain: Chain[CapturedSource], database: SourceDatabase, timeout: float) -> Carried:
    started = time.monotonic()
    position = carry_to_lake(chain, deadline=timeout, database=database)
    return Carried(position, time.monotonic() - started)


def _prepare(chain: Chain[CapturedSource], to_compare: TableToCompare) -> TableComparison:
    table = to_compare.table
    if to_compare.catalogue is None:
        raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
    state, committed = differing_rows.existing(chain.source, table, to_compare.read)
    text = differing_rows.row_text(chain, table, to_compare.catalogue)
    return TableComparison(
        ComparedTable(chain.platform, chain.source, table, text, to_compare.view), state, committed, to_compare.part
    )


def _sum_source(comparison: TableComparison, cut: SourceCut) -> None:
    from spark.proof.key_order import TwoRanges

    started, compared = time.monotonic(), comparison.compared
    if isinstance(comparison.part, TwoRanges):
        comparison.in_range = cut.in_range(compared.table.id, compared.text, comparison.part.source)
    else:
        comparison.source = cut.digest(compared.table.id, compared.text, comparison.part)
    comparison.seconds["source"] = round(time.monotonic() - started, 3)


def _in_lake(comparison: TableComparison, cut: SourceCut, position: LogPosition) -> TableResult:
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import slice_text

    if isinstance(comparison.part, TwoRanges):
        return _two_ranges(comparison, comparison.part, cut, position)
    assert comparison.ours is not None
    compared, (task, ours, seconds) = comparison.compared, comparison.ours()
    comparison.seconds["lake"] = round(seconds, 3)
    differing = sorted(b for b in {*ours, *comparison.source} if ours.get(b) != comparison.source.get(b))
    result = TableResult(
        table=f"{compared.source.name}/{names.table_name(compared.table)}",
        verdict=DIFFERENT if differing else EQUAL,
        snapshot=cut.text,
        lsn=cut.lsn,
        silver_version=comparison.state.version,
        source_rows=sum(rows for rows, _ in comparison.source.values()),
        silver_rows=sum(rows for rows, _ in ours.values()),
        # A bucket that a statement loses on one side is lost on neither by another.
        counted=cut.count(compared.table.id, compared.text, comparison.part),
        set_aside=differing_rows.rows_in_doubt(compared),
        buckets=len({*ours, *comparison.source}),
        buckets_differing=len(differing),
        share=slice_text(comparison.part),
        not_compared=compared.text.not_compared,
    )
    if differing:
        started = time.monotonic()
        result = differing_rows.drill_down(compared, task, cut, result, differing)
        comparison.seconds["drill"] = round(time.monotonic() - started, 3)
    return replace(result, seconds=dict(comparison.seconds))


def _two_ranges(comparison: TableComparison, part: TwoRanges, cut: SourceCut, position: LogPosition) -> TableResult:
    """Rows of the source's range, one by one; of silver's range the keys that the source has not."""
    compared = comparison.compared
    task = differing_rows.comparison_task(compared, (comparison.state, comparison.committed), position, cut.in_lake)
    started = time.monotonic()
    there = compared_slices.OwnOrderTable(cut, compared.table.id, compared.text)
    ours = compared_slices.silver_at_cut(compared.platform.spark(), task, there, part, comparison.in_range)
    comparison.seconds["lake"] = round(time.monotonic() - started, 3)
    result = TableResult(
        table=f"{compared.source.name}/{names.table_name(compared.table)}",
        verdict=EQUAL if ours.rows == comparison.in_range else DIFFERENT,
        snapshot=cut.text,
        lsn=cut.lsn,
        silver_version=comparison.state.version,
        source_rows=comparison.in_range.total(),
        silver_rows=ours.compared,
        looked_up=ours.looked_up,
        set_aside=differing_rows.rows_in_doubt(compared),
        share=part.text,
        not_compared=compared.text.not_compared,
    )
    if not result.equal:
        started = time.monotonic()
        sides = differing_rows.HashedSides(comparison.in_range, ours.rows)
        result = differing_rows.rows_of_keys(compared, task, cut, result, sides)
        comparison.seconds["drill"] = round(time.monotonic() - started, 3)
    return replace(result, seconds=dict(comparison.seconds))
