"""An append of plain events by the tasks of one Spark job, to the same table and under the same contract as
spark.bronze.append_job.

One task does it all, or several write a part of the records each and one commits them. Of two appends that have seen
the same log the second is refused by the number of its turn, whichever writer each is. A record that its envelope
alone does not tell, ranges that Kafka does not hand out, and executors without our Python leave the batch to Spark's
own append, with nothing committed.

    append_ranges   one task does it all
    write_part      one of several tasks writes its part of the records
    commit_parts    then one task commits what they have written
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark.bronze import append_job as bronze_job
from spark.bronze import batch_records, narrow_columns, part_files, range_reader
from spark.bronze.narrow_columns import CONNECTORS, ENVELOPE
from spark.bronze.part_files import BatchPart, divide_ranges, identify_ranges
from spark.errors import LeftToSparkError
from spark.events.arrow_records import BRONZE_ARROW, sort_rows, write_hexadecimal
from spark.events.kafka_source import remaining
from spark.events.positions import EPOCH_WIDTH, NUMBER_WIDTH
from spark.specs import BRONZE_NAMES, BronzeSpec, JobResult, TopicRange
from spark.table.commit_metadata import Committed, fold
from spark.table.data_files import write_file
from spark.table.delta_table import table_of
from spark.table.server_facts import small_work_lack
from spark.table.spark_failures import SPARK_FAILURES, error_text, is_closed_session
from spark.table.table_folder import open_folder
from spark.table.write_lease import lend_to_task

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_ORDER = ("table", "partition", "offset")
_ROWS_APART = 4096
ReadRanges = Callable[[BronzeSpec, Sequence[TopicRange]], list[pa.Table]]
"""spark.bronze.range_reader.read_ranges, or another way to the same records."""


@dataclass(frozen=True)
class BatchWork:
    """What bronze has committed, and what of the ranges it has not."""

    committed: Committed
    todo: Sequence[TopicRange]


def append_ranges(spec: BronzeSpec, read_ranges: ReadRanges = range_reader.read_ranges) -> JobResult:
    """Append what of the ranges is not committed yet.

    Raises:
        LeftToSparkError: Spark has to look at it; nothing is committed.
        JobRefusedError: as spark.bronze.append_job.
    """
    started = time.monotonic()
    missing = find_missing_ranges(spec)
    if not missing.todo:
        return bronze_job.append_result(None, {}, [], started)
    return commit_parts(spec, [_write(spec, missing.todo, missing, read_ranges)], started=started)


def write_part(spec: BronzeSpec, number: int, parts: int) -> BatchPart:
    """Part `number` of `parts` of what is not committed yet: a file that no commit names. Others may append meanwhile.

    Raises:
        LeftToSparkError: Spark has to look at it.
        JobRefusedError: as spark.bronze.append_job.
    """
    missing = find_missing_ranges(spec)
    own = divide_ranges(missing.todo, parts)
    return (
        _write(spec, own[number], missing, range_reader.read_ranges)
        if number < len(own)
        else BatchPart(identify_ranges(missing.todo))
    )


def commit_parts(spec: BronzeSpec, parts: Sequence[BatchPart], *, started: float | None = None) -> JobResult:
    """Commit what tasks have written of the same records; where that fails, their files go.

    Others may have appended other topics meanwhile, as the run of another table does.

    Raises:
        LeftToSparkError: somebody has appended some of the records; nothing is committed.
    """
    started = time.monotonic() if started is None else started
    with lend_to_task(spec.path):
        missing = find_missing_ranges(spec)
        if not missing.todo:
            # An executor that is lost has its task run again: then the files are committed. Others are left to VACUUM.
            return bronze_job.append_result(None, {}, [], started)
        if {batch_part.whole for batch_part in parts} != {identify_ranges(missing.todo)}:
            discard_parts(spec, parts)
            raise LeftToSparkError("somebody else appended some of these records meanwhile")
        return _commit(spec, missing, parts, started)


def discard_parts(spec: BronzeSpec, parts: Sequence[BatchPart]) -> None:
    """Remove files that no commit names, or was tried with."""
    folder = open_folder(spec.path)
    for batch_part in parts:
        if batch_part.file is not None:
            folder.delete(batch_part.file["path"])


def find_missing_ranges(spec: BronzeSpec) -> BatchWork:
    """Bronze's log as it is now.

    Raises:
        LeftToSparkError: it does not tell here what is committed.
    """
    committed = _look_at_log(spec.path)
    return BatchWork(committed, [left for topic in spec.topics if (left := remaining(topic, committed)) is not None])


def _look_at_log(path: str) -> Committed:
    committed = table_of(path).fold(fold, first=1)
    if committed.version >= 0 and (committed.overlaps or not committed.topics):
        raise LeftToSparkError("bronze has to be looked at first")
    return committed


def _write(spec: BronzeSpec, todo: Sequence[TopicRange], of: BatchWork, read_ranges: ReadRanges) -> BatchPart:
    """Not under the table's lock: another run's append does not wait until this one's records are read."""
    records, whole = read_bronze_rows(spec, todo, read_ranges), identify_ranges(of.todo)
    if not records.num_rows:
        return BatchPart(whole)
    groups = part_files.count_groups(records)
    rows = sort_rows(records.select(BRONZE_NAMES).cast(BRONZE_ARROW), _ORDER)
    folder = open_folder(spec.path)
    folder.make()
    return BatchPart(whole, write_file(folder, rows, groups=row_groups(rows["table"])), groups)


def row_groups(tables: pa.ChunkedArray) -> list[int]:
    """Rows that are read apart: of one table, or of several small ones. Who folds some tables reads little of others."""
    sizes: list[int] = []
    for count in tables.value_counts().field("counts").to_pylist():
        if sizes and sizes[-1] < _ROWS_APART:
            sizes[-1] += count
        else:
            sizes.append(count)
    return sizes


def _commit(spec: BronzeSpec, missing: BatchWork, parts: Sequence[BatchPart], started: float) -> JobResult:
    files = [batch_part.file for batch_part in parts if batch_part.file is not None]
    shares = batch_records.shares(missing.todo, [group for batch_part in parts for group in batch_part.groups])
    version = part_files.commit_files(spec, missing.committed, files, shares)
    return bronze_job.append_result(version, shares, missing.todo, started)


def read_bronze_rows(spec: BronzeSpec, todo: Sequence[TopicRange], read_ranges: ReadRanges) -> pa.Table:
    """The records of the ranges with bronze's columns, and `initial` (spark.bronze.narrow_columns)."""
    topics = {topic.topic: topic for topic in todo}
    filled = [topic for topic in todo if topic.has_offsets]
    narrowed = [_with_positions(_narrow(chunk, filled), topics) for chunk in read_ranges(spec, filled)]
    return pa.concat_tables(narrowed) if narrowed else pa.table({})


def _narrow(records: pa.Table, todo: Sequence[TopicRange]) -> pa.Table:
    kinds = sorted({topic.connector for topic in todo})
    parts = []
    for kind in kinds:
        own = [topic.topic for topic in todo if topic.connector == kind]
        own_records = records if len(kinds) == 1 else records.filter(pc.is_in(records["topic"], value_set=pa.array(own)))
        parts.append(narrow_columns.narrow(own_records, kind))
    return pa.concat_tables(parts)


def _with_positions(records: pa.Table, topics: Mapping[str, TopicRange]) -> pa.Table:
    names = records["topic"].combine_chunks().dictionary_encode()
    values = [topics[name] for name in names.dictionary.to_pylist()]

    def of(each: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array(each, kind).take(names.indices)

    epoch = of([f"{t.epoch:0{EPOCH_WIDTH}x}" for t in values], pa.string())
    offset = write_hexadecimal(records["offset"].combine_chunks(), NUMBER_WIDTH)
    position = pc.binary_join_element_wise(epoch, records["place"].combine_chunks(), offset, ".")
    own = {"table": of([t.table for t in values], pa.string()), "epoch": of([t.epoch for t in values], pa.int32())}
    own["position"] = position
    return reduce(lambda table, name: table.append_column(name, own[name]), own, records)


OFFSETS_A_PART, MOST_OFFSETS_A_PART = 25_000, 125_000
"""A second task costs 0.1 s, in which one reads about as many; and a task holds all that it reads."""
_SCHEMA = "result string, left string"


def append_small_batch(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""
    done = append_by_tasks(session, spec).result if can_append_by_tasks(spec) else None
    return bronze_job.run(session, spec) if done is None else done


def can_append_by_tasks(spec: BronzeSpec) -> bool:
    """Whether tasks may append it, however large it is: records that they read, to a lake that they reach."""
    read = all(topic.envelope == ENVELOPE and topic.connector in CONNECTORS for topic in spec.topics if topic.has_offsets)
    return read and not spec.kafka_options


@dataclass(frozen=True)
class SmallBatchOutcome:
    """What became of a batch: the job's result, or why it is left to Spark."""

    result: JobResult | None
    left: str = ""


def append_by_tasks(session: SparkSession, spec: BronzeSpec) -> SmallBatchOutcome:
    """By tasks, or not at all."""
    if lack := small_work_lack(session):
        return SmallBatchOutcome(None, f"Spark's executors cannot do it in Python: {lack}")
    parts = count_parts(session, spec)
    try:
        if parts > 1:
            return _append_in_parts(session, spec, parts)
        return _outcome_of(_run_tasks(session, 1, partial(append_in_task, spec.to_json())))
    except SPARK_FAILURES as error:
        if is_closed_session(error):
            raise
        # Whatever it was, Spark's own append meets it, or does without: the log says what is committed.
        return SmallBatchOutcome(None, f"the job of small batches failed: {error_text(error)[:500]}")


def count_parts(session: SparkSession, spec: BronzeSpec) -> int:
    """How many tasks read the batch: as many as a query of the session has, more for many records, but none for a few."""
    offsets = sum(end - start for topic in spec.topics for start, end in topic.ranges.values())
    most = offsets // OFFSETS_A_PART
    if most < 2:
        return 1
    return max(-(-offsets // MOST_OFFSETS_A_PART), min(int(session.conf.get("spark.sql.shuffle.partitions") or 1), most))


def _append_in_parts(session: SparkSession, spec: BronzeSpec, parts: int) -> SmallBatchOutcome:
    """A job in which each task writes a part, and one in which a task commits them, or takes them away again."""
    started = time.monotonic()
    rows = _run_tasks(session, parts, partial(write_part_in_task, spec.to_json(), parts))
    written = [row.result for row in rows if row.result]
    if left := next((row.left for row in rows if row.left), ""):
        _run_tasks(session, 1, partial(discard_in_task, spec.to_json(), written))
        return SmallBatchOutcome(None, left)
    outcome = _outcome_of(_run_tasks(session, 1, partial(commit_in_task, spec.to_json(), written)))
    if outcome.result is None:
        return outcome
    return SmallBatchOutcome(replace(outcome.result, seconds=round(time.monotonic() - started, 3)))


def _run_tasks(session: SparkSession, tasks: int, task: Callable[..., Iterator[pa.RecordBatch]]) -> list[Row]:
    return session.range(0, tasks, 1, tasks).mapInArrow(task, _SCHEMA).collect()


def _outcome_of(rows: list[Row]) -> SmallBatchOutcome:
    [row] = rows
    return SmallBatchOutcome(JobResult.from_json(row.result) if row.result else None, row.left or "")


def append_in_task(spec: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the append."""

    for _ in batches:
        yield _answer(partial(append_ranges, BronzeSpec.from_json(spec)))


def write_part_in_task(spec: str, parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the parts whose numbers the batches hold."""

    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _answer(partial(write_part, BronzeSpec.from_json(spec), number, parts))


def commit_in_task(spec: str, written: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the commit of what tasks have written."""

    bronze_spec, parts = BronzeSpec.from_json(spec), [BatchPart.from_json(text) for text in written]
    for _ in batches:
        yield _answer(partial(commit_parts, bronze_spec, parts))


def discard_in_task(spec: str, written: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the files of parts go that nobody will commit."""

    bronze_spec, parts = BronzeSpec.from_json(spec), [BatchPart.from_json(text) for text in written]
    for _ in batches:
        discard_parts(bronze_spec, parts)
        yield _row("", "")


def _answer(step: Callable[[], JobResult | BatchPart]) -> pa.RecordBatch:
    try:
        return _row(step().to_json(), None)
    except Exception as error:  # noqa: BLE001 - Spark's own append does it, or says what is wrong
        return _row(None, f"{type(error).__name__}: {str(error)[:500]}")


def _row(result: str | None, left: str | None) -> pa.RecordBatch:
    import pyarrow as pa

    schema = pa.schema([("result", pa.string()), ("left", pa.string())])
    return pa.RecordBatch.from_pylist([{"result": result, "left": left}], schema=schema)
