"""The two sides of a comparison: silver's state and its sums at the cut, asked of Spark, and the way from buckets that
differ to the keys that do, with both rows of each.

A large table, or one with news, has a query of its own; small ones have one for many. Rows in doubt are told as such, not
as equal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.chain.quarantine import quarantine_records
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.delta_log import SilverState, bronze_committed, silver_state
from cdc_assets.clients.delta_rows import plain_table
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.schema_ledger import ledger_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.comparison_result import EQUAL, RowDifference, TableResult, Veil, place_of_damage
from cdc_assets.registry import names
from cdc_assets.registry.errors import ON_PURPOSE, CdcAssetsError, DatabaseError, SparkRunError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import Committed

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Suspect, Task, Texts
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import RowText, Slice
    from spark.proof.snapshot_cut import AnyCut

LakeRead = tuple[SilverState | None, Committed | None]
"""Silver's state and what bronze has committed, read in this order: what silver has folded, bronze holds."""
_IGNORED = "schema_changes: {add: ignore} keeps it out of silver"


@dataclass(frozen=True)
class ComparedTable:
    """One table that is compared, and how its rows are written on both sides; `view`: the lake's are those of the view of now."""

    platform: Platform
    source: BaseSource
    table: Table
    text: RowText
    view: bool = False


def states(chain: Chain[BaseSource], table: Table) -> LakeRead:
    """As both are now; None where there is none yet."""
    state = silver_state(chain.silver_path(table))
    return state, bronze_committed(chain.bronze_path)


def row_text(chain: Chain[BaseSource], table: Table, found: CatalogueTable, without: Mapping[str, str] | None = None) -> RowText:
    """How the table's rows are written on both sides; `without` are columns that the source's side cannot write."""
    from spark.proof.row_text import RowText

    spec = silver_spec(chain.platform.lake, chain.source, table, found)
    ledger = ledger_of(spec.path) if spec.schema_changes["add"] == "ignore" else None
    left_out = {c.name: _IGNORED for c in spec.columns if ledger is not None and not ledger.holding(c.name)}
    return RowText(spec, {**left_out, **(without or {})})


def existing(source: BaseSource, table: Table, read: LakeRead) -> tuple[SilverState, Committed]:
    """Both, or an error that says what to do."""
    state, committed = read
    if state is None or state.folded is None or committed is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('silver', source, table))} does not exist yet; materialize it first")
    return state, committed


def comparison_task(compared: ComparedTable, read: LakeRead, position: LogPosition, cut: AnyCut, part: Slice = (0, 1)) -> Task:
    """Silver as it was read before, and the events between that and the position, as the cut sees them."""
    from spark.proof.bucket_sums import Task
    from spark.proof.table_at_cut import Base
    from spark.specs import TopicRange

    source, table, text = compared.source, compared.table, compared.text
    state, committed = existing(source, table, read)
    assert state.folded is not None
    topic = names.lake_topic(source, table)
    committed_topic = committed.topics.get(topic)
    if committed_topic is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('bronze', source, table))} holds nothing yet; materialize it first")
    ends = position.offsets.get(topic, {})
    ranges = {p: (committed_topic.positions.get(p, 0), max(end, committed_topic.positions.get(p, 0))) for p, end in ends.items()}
    spec = text.spec
    lake = compared.platform.lake_kafka()
    of, form = lake.states([topic]).get(topic), (spec.envelope, spec.connector, spec.schema_registry)
    moved = of.moves_of(ranges) if of else {}
    tail = TopicRange(spec.table, topic, committed_topic.topic_id, committed_topic.epoch, ranges, *form, moved=moved)
    files = None if compared.view or not is_small(state) else plain_table(spec.path, state.version)
    base = Base(state.version, state.folded, committed, tail, lake.bootstrap, lake.login, compared.view, files)
    return Task(spec, base, cut, part, text.without)


def rows_in_doubt(compared: ComparedTable) -> int:
    """Open records in quarantine of which no later event says the row."""
    records = quarantine_records(compared.platform.lake, compared.source, compared.table)
    return sum(record.facts["superseded_by"] is None for record in records)


def is_small(state: SilverState) -> bool:
    """Whether looking at its rows costs Spark less than planning how to."""
    from spark.table.spark_plans import ROWS_UP_TO

    return state.rows <= ROWS_UP_TO


@dataclass(frozen=True)
class Carried:
    """Where the cut is in the lake's topics, and how long it took there."""

    position: LogPosition
    seconds: float


@dataclass
class TableComparison:
    """One table on its way through the steps.

    `source` are the sums of its buckets, `in_range` the rows of its range. `ours` waits for silver's sums, their task and the
    seconds that they took: of a range nobody takes any.
    """

    compared: ComparedTable
    state: SilverState
    committed: Committed
    part: Slice | TwoRanges
    ours: Callable[[], tuple[Task, Digest, float]] | None = None
    source: Digest = field(default_factory=dict)
    in_range: KeyHashes = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether its sums are taken with those of others."""
        return not self.compared.view and is_small(self.state)


_TOGETHER = 12
"""Tables of one query. Of 72 tables on two cores 1, 12 and 36 took 14.6, 10.8 and 18.4 s (ADR 100)."""
LakeSum = tuple["Task", "Digest", float]


def sum_alone(work: TableComparison, cut: SourceCut, carried: Future[Carried]) -> LakeSum:
    """By a query of its own, as soon as the cut is in the lake; its task, and the seconds that it took."""
    return _sum_task(work, _task_of(work, cut, carried))


def sum_small(pool: Executor, works: Sequence[TableComparison], cut: SourceCut, carried: Future[Carried]) -> None:
    """Begin to take the sums of small tables, many at a time; of those with news alone.

    A query costs Spark 0.3 to 0.7 CPU seconds whatever it reads, and of a hundred small tables of a source hardly one has news.
    """
    quiet: list[tuple[TableComparison, Task]] = []
    for comparison in works:
        try:
            task = _task_of(comparison, cut, carried)
        except ON_PURPOSE as error:
            # Whoever asks for its sums is told why there are none.
            refused: Future[LakeSum] = Future()
            refused.set_exception(error)
            comparison.ours = refused.result
            continue
        if task.base.has_news(task.spec.table):
            comparison.ours = pool.submit(_sum_task, comparison, task).result
        else:
            quiet.append((comparison, task))
    for begin in range(0, len(quiet), _TOGETHER):
        group = quiet[begin : begin + _TOGETHER]
        sums = pool.submit(_sum_together, group)
        for number, (comparison, task) in enumerate(group):
            comparison.ours = partial(_take_one, sums, number, comparison, task)


def _sum_task(comparison: TableComparison, task: Task) -> LakeSum:
    from spark.proof import bucket_sums

    started = time.monotonic()
    ours = comparison.compared.platform.spark().compare(bucket_sums.digest, task)
    return task, ours, time.monotonic() - started


def _task_of(comparison: TableComparison, cut: SourceCut, carried: Future[Carried]) -> Task:
    from spark.proof.key_order import TwoRanges

    assert not isinstance(comparison.part, TwoRanges)
    return comparison_task(
        comparison.compared, (comparison.state, comparison.committed), carried.result().position, cut.in_lake, comparison.part
    )


def _sum_together(group: Sequence[tuple[TableComparison, Task]]) -> tuple[list[Digest | None], float]:
    from spark.proof.bucket_sums import digest_small_tables

    started = time.monotonic()
    digests = group[0][0].compared.platform.spark().compare(digest_small_tables, [task for _, task in group])
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


# Key and hash of half a million rows take about 100 MB here.
MAX_ROWS = 500_000
MAX_SHOWN = 1000


@dataclass(frozen=True)
class HashedSides:
    """Rows (key and hash) of the source and of the lake."""

    source: KeyHashes
    lake: KeyHashes


def drill_down(compared: ComparedTable, task: Task, cut: SourceCut, result: TableResult, differing: Sequence[int]) -> TableResult:
    """The result with its differing keys; equal after all where every suspect was only a matter of the cut."""
    from spark.proof import bucket_sums

    table, text = compared.table, compared.text
    per_bucket = max(1, max(result.source_rows or 0, result.silver_rows or 0) // max(1, result.buckets))
    looked_at = differing[: max(1, MAX_ROWS // per_bucket)]
    source = cut.key_hashes(table.id, text, looked_at, task.part)
    lake = compared.platform.spark().compare(lambda session, asked: bucket_sums.key_hashes(session, asked, looked_at), task)
    settled = len(looked_at) == len(differing)
    if not text.keys:
        return _with_differences(result, _whole_rows(source, lake), Veil(table.sensitive), tuple(text.forms), settled=settled)
    return rows_of_keys(compared, task, cut, result, HashedSides(source, lake), settled=settled)


def rows_of_keys(
    compared: ComparedTable,
    task: Task,
    cut: SourceCut,
    result: TableResult,
    sides: HashedSides,
    *,
    settled: bool = True,
) -> TableResult:
    """The same of the rows of both sides; `settled`: these are all that differ.

    A key is different when the source's row is not the one that silver has at the cut. Where the cut hides events of the key
    that silver had folded already, silver cannot say: bronze, folded up to the cut, speaks for it.
    """
    from spark.proof import bucket_sums

    table, text, source, lake = compared.table, compared.text, sides.source, sides.lake
    missing, extra = source - lake, lake - source
    keys = sorted({key for key, _ in (*missing, *extra)})
    shown = keys[:MAX_SHOWN]
    answers = (
        compared.platform.spark().compare(lambda session, asked: bucket_sums.suspects(session, asked, shown), task)
        if shown
        else {}
    )
    rows = cut.texts(table.id, text, shown) if shown else {}
    hashes = dict([*source])
    duplicates = Counter(key for key, _ in lake.elements())
    judged = [_difference(key, hashes.get(key), rows.get(key), answers[key], duplicates[key]) for key in shown]
    differences = [difference for difference in judged if difference is not None]
    more = len(keys) - len(shown)
    # Of a key that was only a matter of the cut bronze speaks: whether it has a row. Of two ranges the source's keys are counted.
    counted = [key in hashes or result.looked_up is None for key in shown]
    cleared = [
        key for key, difference, is_counted in zip(shown, judged, counted, strict=True) if is_counted and difference is None
    ]
    moved = sum((answers[key].bronze_hash is not None) - duplicates[key] for key in cleared)
    result = replace(result, silver_rows=(result.silver_rows or 0) + moved)
    return _with_differences(result, differences, Veil(table.sensitive), text.keys, settled=settled and not more, more=more)


def _difference(key: str, wanted: int | None, row: Texts | None, suspect: Suspect, copies: int) -> RowDifference | None:
    if wanted is not None and row is None:
        raise CdcAssetsError("the source's table was rewritten or truncated during the comparison; run it again")
    if suspect.hides and suspect.bronze_hash == wanted:
        return None
    silver = suspect.bronze if suspect.hides else suspect.silver
    kind = "missing" if silver is None else "phantom" if row is None else "twice" if copies > 1 else "differs"
    where = place_of_damage(in_bronze=suspect.bronze_hash == wanted, set_aside=suspect.set_aside)
    return RowDifference(key, kind, row, silver, where, max(1, copies))


def _whole_rows(source: KeyHashes, lake: KeyHashes) -> list[RowDifference]:
    """Rows without a key: how many copies one side has more of."""
    differences = []
    for kind, more in (("missing", source - lake), ("phantom", lake - source)):
        differences += [
            RowDifference(text, kind, None, None, "not told without a key", copies) for (text, _), copies in more.items()
        ]
    return differences


def _with_differences(
    result: TableResult, differences: Sequence[RowDifference], veil: Veil, keys: tuple[str, ...], *, settled: bool, more: int = 0
) -> TableResult:
    if not differences and settled:
        return replace(result, verdict=EQUAL, buckets_differing=0)
    shown = tuple(veil.over(d, keys) for d in differences[:MAX_SHOWN])
    return replace(result, differences=shown, keys_differing=len(differences) + more)
