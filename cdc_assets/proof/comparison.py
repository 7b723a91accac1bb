"""Compares tables of one source with silver while both move: one method for every kind, at one position where it has one.

1. Silver's version and what bronze has committed are read: all of it was delivered before the source is read.
2. Each table's rows and hashes are summed by bucket at the source, of one range of keys or of all.
3. What was committed by then is carried into the lake (SourceSide.carry): at a cut meanwhile, else afterwards.
4. The lake is brought there (spark.proof.table_at_cut) and summed the same way. Small tables are summed together.
5. Buckets that differ are drilled down to keys, and the rows of both sides are read.
6. At a cut a key is judged once: it is folded again from all of bronze, which says where the damage is. Elsewhere it is read
   again, round by round, until what differs is stable.

    cleared      the lake's row L is the source's row before (S1) or after (S2)
    different    S1 = S2, L is another row, and the next round finds the very same: what was committed before S1 is in L, so a
                 change on its way would have arrived
    in flight    everything else, until the rounds are over: neither equal nor different can be said

Two steps are not as strong as a cut: no moment is named at which all rows were equal, and a row that changes to and fro between
the reads, twice in the same way, would be taken for one that is different.

Of two ranges of keys (spark.proof.key_order) rows are compared one by one, without buckets.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.chain.quarantine import quarantine_records
from cdc_assets.clients.delta_log import SilverState, bronze_committed, silver_state
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import compared_slices
from cdc_assets.proof.compared_slices import CutSlices
from cdc_assets.proof.compared_table import (
    CUT,
    TWO_STEP,
    WHOLE,
    WHOLE_TABLES,
    ComparedTable,
    ComparisonRequest,
    LakeRead,
    SourceSide,
    Way,
    comparison_task,
    existing,
    is_small,
    lake_read,
    row_text,
)
from cdc_assets.proof.comparison_result import (
    DIFFERENT,
    EQUAL,
    INCONCLUSIVE,
    HashedSides,
    Suspects,
    TableResult,
    Veil,
    difference_of,
    not_compared,
    rows_of_keys,
    whole_rows,
    with_causes,
    with_differences,
)
from cdc_assets.proof.unsent_changes import forget_equal_tables
from cdc_assets.registry import names
from cdc_assets.registry.errors import (
    ON_PURPOSE,
    CdcAssetsError,
    DatabaseError,
    MissingAddressError,
    RefusalError,
    ServiceError,
    SparkRunError,
)
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.commit_metadata import Committed
from spark.values.sql_dialects import BUCKETS

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Task, Texts
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import Slice

# Rows are written by spark's rules here as well: they tell of a key that has become another since its range was chosen.
_AT_ONCE = 3
_TOGETHER = 12
"""Tables of one query. Of 72 tables on two cores 1, 12 and 36 took 14.6, 10.8 and 18.4 s (ADR 100)."""
# Key and hash of half a million rows take about 100 MB here.
MAX_ROWS = 500_000
MAX_SUSPECTS = 5000
ROUNDS = 8
_PAUSE_SECONDS = 1.0
LakeSum = tuple["Task", "Digest", float]


@dataclass(eq=False)
class TableComparison:
    """One table on its way through the steps.

    `source` are the sums of its buckets, `in_range` the rows of its range. `lake` waits for silver's sums, their task and the
    seconds that they took. `result` is what is known so far, `suspects` what is still to be judged, by the source's rows `before`
    and after.
    """

    compared: ComparedTable
    state: SilverState
    committed: Committed
    part: Slice | TwoRanges
    source: Digest = field(default_factory=dict)
    in_range: KeyHashes = field(default_factory=Counter)
    lake: Callable[[], LakeSum] | None = None
    result: TableResult | None = None
    suspects: Suspects = field(default_factory=lambda: Suspects(set()))
    before: Mapping[str, Texts] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether its sums are taken with those of others."""
        return not self.compared.view and is_small(self.state)

    @property
    def in_two_ranges(self) -> bool:
        """Whether rows are compared one by one, without sums."""
        from spark.proof.key_order import TwoRanges

        return isinstance(self.part, TwoRanges)

    def is_by_key(self, side: SourceSide) -> bool:
        """The same, also where the source's side does not tell of every key. After its sums."""
        return self.in_two_ranges or side.key_filter(self.compared.table.id) is not None


def compare_rows(chain: Chain[Any], tables: Sequence[Table], request: ComparisonRequest = WHOLE_TABLES) -> dict[str, TableResult]:
    """Rows of any source compared with silver, by short table name; what stands in the way is a result as well.

    Raises:
        DatabaseError: there is no such kind of source.
    """
    results: dict[str, TableResult] = {}
    try:
        _refuse_without_connector(chain)
        for way in _ways(chain, tables, request):
            results |= compare_by(chain, way, request)
    except CdcAssetsError as error:
        results |= {n: not_compared(chain.source, t, str(error)) for t in tables if (n := names.table_name(t)) not in results}
    if not request.view:
        forget_equal_tables(chain.source, tables, results)
    return results


def compare_parts(
    chain: Chain[Any], tables: Sequence[Table], parts: CutSlices, *, two_step: bool = False
) -> dict[str, TableResult]:
    """The same of these parts, other tables whole; and again the parts that were found to differ before, until they do not."""
    by_name = {names.table_name(table): table for table in tables}

    def compare(name: str, part: Slice | TwoRanges) -> TableResult:
        return compare_rows(chain, [by_name[name]], ComparisonRequest({name: part}, two_step=two_step))[name]

    results = compare_rows(chain, tables, ComparisonRequest(parts, two_step=two_step))
    compared_slices.advance_cursors(chain.source, parts, results)
    return compared_slices.with_earlier(chain.source.name, parts, results, compare)


def _refuse_without_connector(chain: Chain[BaseSource]) -> None:
    """Nothing that is committed would come to the lake, however long anybody waits.

    Raises:
        RefusalError: Connect answers, and knows no connector of the source.
    """
    if chain.source.captured is None:
        return
    try:
        connect = chain.platform.core_connect(chain.source.cluster)
        is_there = connect.config(name := names.connector_name(chain.source)) is not None
    except (ServiceError, MissingAddressError):
        # Whether there is one nobody can tell: the wait for it has a limit, and says what did not come.
        return
    if not is_there:
        raise RefusalError(
            f"connector {name} does not exist at {connect.url}, so nothing of {chain.source.name} comes to the lake: "
            "./cdc apply makes it"
        )


def _ways(chain: Chain[Any], tables: Sequence[Table], request: ComparisonRequest) -> Sequence[Way]:
    from cdc_assets.proof.kind_proof import proof_of

    ways = proof_of(chain.source).ways
    if ways is None:
        raise DatabaseError(f"source {chain.source.name}: nobody can be asked for its rows")
    return ways(chain, tables, request)


def compare_by(chain: Chain[Any], way: Way, request: ComparisonRequest) -> dict[str, TableResult]:
    """By short table name. What stands in the way of comparing is a result as well, never an exception."""
    try:
        # What the lake holds before the snapshot was committed before it.
        reads = _lake_reads(chain, way.tables) if way.method == CUT else None
        with way.open() as side:
            results = ComparedTables(chain, side, request).compare(reads or _lake_reads(chain, way.tables))
            return with_causes(chain, side.catalogue, results)
    except ON_PURPOSE as error:
        return {names.table_name(t): not_compared(chain.source, t, str(error), method=way.method) for t in way.tables}


def _lake_reads(chain: Chain[Any], tables: Sequence[Table]) -> list[tuple[Table, LakeRead]]:
    states = [silver_state(chain.silver_path(table)) for table in tables]
    committed = bronze_committed(chain.bronze_path)
    return [(table, (state, committed)) for table, state in zip(tables, states, strict=True)]


@dataclass(frozen=True)
class _Carried:
    """Where the lake has to be, and how long its records took there."""

    position: LogPosition
    seconds: float


@dataclass(frozen=True)
class ComparedTables:
    """Tables of one source, and its rows as one side shows them."""

    chain: Chain[Any]
    side: SourceSide
    request: ComparisonRequest

    @property
    def method(self) -> str:
        """As results tell it."""
        return TWO_STEP if self.side.cut is None else CUT

    def compare(self, tables: Sequence[tuple[Table, LakeRead]]) -> dict[str, TableResult]:
        """By short table name. The database and Spark have no need of each other's sums: at a cut they are taken beside each
        other. Rows that are read again are those of one connection, by one thread at a time."""
        results: dict[str, TableResult] = {}
        comparisons: list[TableComparison] = []
        workers = 1 if self.side.cut is None else _AT_ONCE
        with ThreadPoolExecutor(1) as carrying, ThreadPoolExecutor(workers) as pool:
            carried: Future[_Carried] | None = None
            for table, read in tables:
                try:
                    comparison = self._prepare(table, read)
                    if self.side.cut is not None:
                        carried = carried or carrying.submit(self._carry)
                        if not (comparison.in_two_ranges or comparison.is_small):
                            comparison.lake = pool.submit(self._sum_alone, comparison, carried).result
                    self._sum_source(comparison)
                    comparisons.append(comparison)
                except ON_PURPOSE as error:
                    results[names.table_name(table)] = self._why_not(table, error)
            if comparisons:
                there = (carried or carrying.submit(self._carry)).result()
                self._sum_rest(pool, comparisons, there)
                # Behind all sums in the pool: whoever waits for one waits for what has begun.
                list(pool.map(partial(self._attempt, partial(self._look, there=there)), comparisons))
        self._repeat(comparisons)
        return results | {names.table_name(comparison.compared.table): self._result(comparison) for comparison in comparisons}

    def _attempt(self, step: Callable[[TableComparison], None], comparison: TableComparison) -> None:
        """A step of one table; what stands in its way is its result."""
        try:
            step(comparison)
        except ON_PURPOSE as error:
            comparison.suspects = Suspects(set())
            comparison.result = self._why_not(comparison.compared.table, error)

    def _why_not(self, table: Table, error: Exception) -> TableResult:
        return not_compared(self.chain.source, table, str(error), method=self.method)

    def _carry(self) -> _Carried:
        started = time.monotonic()
        return _Carried(self.side.carry(), time.monotonic() - started)

    def _prepare(self, table: Table, read: LakeRead) -> TableComparison:
        catalogued = self.side.catalogue.get(table.id)
        if catalogued is None:
            raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
        state, committed = existing(self.chain.source, table, read)
        text = row_text(self.chain, table, catalogued, self.side.unwritten(catalogued))
        part = self.request.slices.get(names.table_name(table), WHOLE)
        comparison = TableComparison(ComparedTable(self.chain, table, text, self.request.view), state, committed, part)
        if self.side.cut is None and not text.keys:
            raise DatabaseError(f"{table.name} has no key that can be compared: the two-step method reads keys again")
        if self.side.cut is None and comparison.in_two_ranges:
            comparison.part = WHOLE
        return comparison

    def _sum_source(self, comparison: TableComparison) -> None:
        from spark.proof.key_order import TwoRanges

        started, (table, text) = time.monotonic(), (comparison.compared.table.id, comparison.compared.text)
        if isinstance(comparison.part, TwoRanges):
            assert self.side.cut is not None
            comparison.in_range = self.side.cut.in_range(table, text, comparison.part.source)
        else:
            comparison.source = self.side.rows.digest(table, text, comparison.part)
        comparison.seconds["source"] = round(time.monotonic() - started, 3)

    def _task(self, comparison: TableComparison, position: LogPosition) -> Task:
        from spark.proof.key_order import TwoRanges

        part = WHOLE if isinstance(comparison.part, TwoRanges) else comparison.part
        return comparison_task(comparison.compared, (comparison.state, comparison.committed), position, self.side.sees, part)

    def _sum_alone(self, comparison: TableComparison, carried: Future[_Carried]) -> LakeSum:
        """By a query of its own, as soon as the position is in the lake; its task, and the seconds that it took."""
        return _sum_task(comparison, self._task(comparison, carried.result().position))

    def _sum_rest(self, pool: Executor, comparisons: Sequence[TableComparison], there: _Carried) -> None:
        """Begin to take the lake's sums that are not taken yet: small tables many at a time; those with news alone.

        A query costs Spark 0.3 to 0.7 CPU seconds whatever it reads, and of a hundred small tables hardly one has news.
        """
        quiet: list[tuple[TableComparison, Task]] = []
        for comparison in comparisons:
            comparison.seconds["carry"] = round(there.seconds, 3)
            if comparison.lake is not None:
                continue
            none_taken: Future[LakeSum] = Future()
            comparison.lake = none_taken.result
            try:
                task = self._task(comparison, there.position)
            except ON_PURPOSE as error:
                # Whoever asks for its sums is told why there are none.
                none_taken.set_exception(error)
                continue
            if comparison.is_by_key(self.side):
                none_taken.set_result((task, {}, 0.0))
            elif not comparison.is_small or task.base.has_news(task.spec.table):
                comparison.lake = pool.submit(_sum_task, comparison, task).result
            else:
                quiet.append((comparison, task))
        for begin in range(0, len(quiet), _TOGETHER):
            group = quiet[begin : begin + _TOGETHER]
            sums = pool.submit(_sum_together, group)
            for number, (comparison, task) in enumerate(group):
                comparison.lake = partial(_take_one, sums, number, comparison, task)

    def _look(self, comparison: TableComparison, there: _Carried) -> None:
        """What both sides' sums say, and of what differs the keys: judged at once at a cut, else suspects."""
        assert comparison.lake is not None
        cut, (task, ours, seconds) = self.side.cut, comparison.lake()
        comparison.seconds["lake"], started = round(seconds, 3), time.monotonic()
        differing = sorted(b for b in {*ours, *comparison.source} if ours.get(b) != comparison.source.get(b))
        result = replace(self._first_result(comparison, there.position, ours), buckets_differing=len(differing))
        if cut is None:
            comparison.result = self._find_suspects(comparison, task, result, differing)
        elif comparison.in_two_ranges:
            comparison.result = self._look_at_ranges(comparison, task, result)
        else:
            # A bucket that a statement loses on one side is lost on neither by another.
            compared = comparison.compared
            result = replace(result, counted=cut.count(compared.table.id, compared.text, task.part))
            equal = replace(result, verdict=EQUAL)
            comparison.result = self._drill_down(comparison, task, result, differing) if differing else equal
        if differing or comparison.in_two_ranges:
            comparison.seconds["drill"] = round(time.monotonic() - started, 3)

    def _first_result(self, comparison: TableComparison, position: LogPosition, ours: Digest) -> TableResult:
        """What the sums say of the table; nobody has judged yet."""
        from spark.proof.row_text import slice_text

        cut, compared = self.side.cut, comparison.compared
        return TableResult(
            compared.name,
            DIFFERENT,
            lsn=position.lsn if cut is None else cut.lsn,
            snapshot="" if cut is None else cut.text,
            silver_version=None if cut is None else comparison.state.version,
            source_rows=sum(rows for rows, _ in comparison.source.values()),
            silver_rows=sum(rows for rows, _ in ours.values()),
            set_aside=rows_in_doubt(compared),
            buckets=len({*ours, *comparison.source}),
            source_digest="" if cut is None else _digest_text(comparison.source),
            silver_digest="" if cut is None else _digest_text(ours),
            share=slice_text(comparison.part),
            not_compared={**compared.text.not_compared, **_unread_records(self.side.unread(compared.table.id))},
            method=self.method,
        )

    def _look_at_ranges(self, comparison: TableComparison, task: Task, result: TableResult) -> TableResult:
        """Rows of the source's range, one by one; of silver's range the keys that the source has not."""
        from spark.proof.key_order import TwoRanges

        compared, cut = comparison.compared, self.side.cut
        assert cut is not None
        assert isinstance(comparison.part, TwoRanges)
        there = compared_slices.OwnOrderTable(cut, compared.table.id, compared.text)
        sessions = self.chain.platform.spark()
        ours = compared_slices.silver_at_cut(sessions, task, there, comparison.part, comparison.in_range)
        rows, looked_up = comparison.in_range.total(), ours.looked_up
        result = replace(result, source_rows=rows, silver_rows=ours.compared, looked_up=looked_up)
        if ours.rows == comparison.in_range:
            return replace(result, verdict=EQUAL)
        return rows_of_keys(compared, task, self.side, result, HashedSides(comparison.in_range, ours.rows))

    def _drill_down(self, comparison: TableComparison, task: Task, result: TableResult, differing: Sequence[int]) -> TableResult:
        """The result with its differing keys; equal after all where every suspect was only a matter of the cut."""
        table, text = comparison.compared.table, comparison.compared.text
        per_bucket = max(1, max(result.source_rows or 0, result.silver_rows or 0) // max(1, result.buckets))
        looked_at = differing[: max(1, MAX_ROWS // per_bucket)]
        sides = self._sides(comparison, task, looked_at)
        settled = len(looked_at) == len(differing)
        if not text.keys:
            return with_differences(result, whole_rows(sides), Veil(table.sensitive), tuple(text.forms), settled=settled)
        return rows_of_keys(comparison.compared, task, self.side, result, sides, settled=settled)

    def _sides(self, comparison: TableComparison, task: Task, buckets: Sequence[int]) -> HashedSides:
        from spark.proof import bucket_sums

        source = self.side.rows.key_hashes(comparison.compared.table.id, comparison.compared.text, buckets, task.part)
        lake = self.chain.platform.spark().compare(lambda session, asked: bucket_sums.key_hashes(session, asked, buckets), task)
        return HashedSides(source, lake)

    def _find_suspects(
        self, comparison: TableComparison, task: Task, result: TableResult, differing: Sequence[int]
    ) -> TableResult:
        """Keys of buckets that differ, read later than the sums: under load most of them have merely changed in between."""
        key_filter = self.side.key_filter(comparison.compared.table.id)
        if key_filter is not None:
            _few_enough(comparison)
            result, differing = replace(result, buckets=0, buckets_differing=0), range(BUCKETS)
        if not differing:
            return replace(result, verdict=EQUAL)
        sides = self._sides(comparison, task, differing)
        left = 0
        if key_filter is not None:
            known_rows = Counter({row: copies for row, copies in sides.lake.items() if key_filter(row[0])})
            left, sides = sides.lake.total() - known_rows.total(), replace(sides, lake=known_rows)
        keys = sides.differing_keys
        if len(keys) > MAX_SUSPECTS:
            raise DatabaseError(
                f"{quantity(len(keys), 'key')} differ at first sight, more than {MAX_SUSPECTS}: is silver far behind?"
            )
        comparison.suspects = Suspects(set(keys))
        # Buckets that differ were read again: the rows are those that were compared.
        alike = sum(count for bucket, (count, _) in comparison.source.items() if bucket not in {*differing})
        unknown = {quantity(left, "row"): "the source's side does not tell of them (any more)"} if left else {}
        return replace(
            result,
            verdict=INCONCLUSIVE if keys else EQUAL,
            source_rows=alike + sides.source.total(),
            silver_rows=alike + sides.lake.total(),
            not_compared={**result.not_compared, **unknown},
            suspects=len(keys),
        )

    def _repeat(self, comparisons: Sequence[TableComparison]) -> None:
        """Suspects of all tables, read again until each is cleared or confirmed, or the rounds are over."""
        for number in range(ROUNDS):
            pending = [comparison for comparison in comparisons if comparison.suspects.pending]
            if not pending:
                return
            time.sleep(_PAUSE_SECONDS if number else 0)
            started = time.monotonic()
            for comparison in pending:
                self._attempt(self._read_before, comparison)
            try:
                position = self.side.carry()
            except ON_PURPOSE as error:
                for comparison in pending:
                    comparison.suspects, comparison.result = Suspects(set()), self._why_not(comparison.compared.table, error)
                return
            for comparison in pending:
                if comparison.suspects.pending:
                    self._attempt(partial(self._judge, position=position), comparison)
                comparison.seconds["rounds"] = round(comparison.seconds.get("rounds", 0.0) + time.monotonic() - started, 3)

    def _read_before(self, comparison: TableComparison) -> None:
        table = comparison.compared.table
        comparison.before = self.side.rows.texts(table.id, comparison.compared.text, sorted(comparison.suspects.pending))
        comparison.state, comparison.committed = existing(self.chain.source, table, lake_read(self.chain, table))

    def _judge(self, comparison: TableComparison, position: LogPosition) -> None:
        """One round of one table: the lake with everything that had been committed before its rows were read, and these again."""
        from spark.proof import bucket_sums

        table, text, keys = comparison.compared.table, comparison.compared.text, sorted(comparison.suspects.pending)
        task = self._task(comparison, position)
        lake = self.chain.platform.spark().compare(lambda session, asked: bucket_sums.suspects(session, asked, keys), task)
        after = self.side.rows.texts(table.id, text, keys)
        key_filter = self.side.key_filter(table.id)
        unknown = [key for key in keys if key_filter is not None and not key_filter(key)]
        comparison.suspects.judge(comparison.before, lake, after, unknown)
        assert comparison.result is not None
        comparison.result = replace(comparison.result, lsn=position.lsn)

    def _result(self, comparison: TableComparison) -> TableResult:
        """With what became of its suspects."""
        assert comparison.result is not None
        result = replace(comparison.result, seconds=dict(comparison.seconds))
        if not result.suspects:
            return result
        table, pending, confirmed = comparison.compared.table, comparison.suspects.pending, comparison.suspects.confirmed
        veil = Veil(table.sensitive)
        judged = [difference_of(key, row, suspect, suspect.silver, suspect.copies) for key, (row, suspect) in confirmed.items()]
        return replace(
            result,
            verdict=DIFFERENT if confirmed else INCONCLUSIVE if pending else EQUAL,
            reason=f"{quantity(len(pending), 'key')} in flight in every round" if pending else "",
            set_aside=rows_in_doubt(comparison.compared),
            in_flight=len(pending),
            differences=tuple(veil.over(difference, comparison.compared.text.keys) for difference in judged),
            keys_differing=len(judged),
        )


def rows_in_doubt(compared: ComparedTable) -> int:
    """Open records in quarantine of which no later event says the row."""
    records = quarantine_records(compared.chain.platform.lake, compared.chain.source, compared.table)
    return sum(record.facts["superseded_by"] is None for record in records)


def _digest_text(sums: Digest) -> str:
    """One text of all sums; none where rows are compared without."""
    return hashlib.sha256(repr(sorted(sums.items())).encode()).hexdigest()[:32] if sums else ""


def _unread_records(records: int) -> dict[str, str]:
    return (
        {quantity(records, "record"): "could not be read, so nobody knows whose they are: cdc quarantine list"} if records else {}
    )


def _few_enough(comparison: TableComparison) -> None:
    parts = comparison.part[1] if isinstance(comparison.part, tuple) else 1
    if comparison.state.rows // parts > MAX_ROWS:
        raise DatabaseError(
            f"silver has {quantity(comparison.state.rows, 'row', form=',')}, and the source's side tells not of all keys: more "
            f"than {MAX_ROWS:,} would be looked at one by one; compare a share at a time (--share 1/8)"
        )


def _sum_task(comparison: TableComparison, task: Task) -> LakeSum:
    from spark.proof import bucket_sums

    started = time.monotonic()
    ours = comparison.compared.chain.platform.spark().compare(bucket_sums.digest, task)
    return task, ours, time.monotonic() - started


def _sum_together(group: Sequence[tuple[TableComparison, Task]]) -> tuple[list[Digest | None], float]:
    from spark.proof.bucket_sums import digest_small_tables

    started = time.monotonic()
    digests = group[0][0].compared.chain.platform.spark().compare(digest_small_tables, [task for _, task in group])
    return digests, (time.monotonic() - started) / len(group)


def _take_one(sums: Future[tuple[list[Digest | None], float]], number: int, comparison: TableComparison, task: Task) -> LakeSum:
    """One table's sums of those of its group; by a query of its own where the group's tells none."""
    try:
        digests, seconds = sums.result()
    except SparkRunError:
        # What one table is refused for says nothing of the others.
        return _sum_task(comparison, task)
    digest = digests[number]
    return _sum_task(comparison, task) if digest is None else (task, digest, seconds)
