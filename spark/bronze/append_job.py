"""Bronze: the committed records of offset ranges of many topics, appended to one change log by one commit.

Who reads and decodes a record depends on its form; how its rows are written and committed does not (spark.bronze.part_files).

    plain events        tasks read Kafka, decode by Arrow, and write a part each ─┐
    all others          Spark reads Kafka and decodes; the client writes what    ─┴▶ the client commits
                        is small, tasks write the rest

Plain are records whose envelope alone tells all (spark.bronze.narrow_columns). A batch in which one is not, and ranges
that Kafka does not hand out, are Spark's to read, with nothing committed before. Where executors have no Python, the client does
what tasks do. Nothing is committed where
records are gone from Kafka (JobRefusedError), a range does not continue what is committed (JobRefusedError) or the topic is
another one (JobRefusedError).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze import batch_records, part_files, range_reader
from spark.bronze.batch_records import Group
from spark.bronze.narrow_columns import CONNECTORS, ENVELOPE, decode_records
from spark.bronze.part_files import BatchPart, MissingRanges, append_result, commit_parts, find_missing_ranges, write_part
from spark.errors import CommitLeftOutError, LeftToSparkError, SparkJobError
from spark.events import kafka_source as kafka_ranges
from spark.specs import BRONZE_COLUMNS, BronzeSpec, JobResult, TopicRange
from spark.table import spark_plans
from spark.table.commit_metadata import Committed
from spark.table.server_facts import small_work_lack
from spark.table.spark_failures import SPARK_FAILURES, error_text, is_closed_session, run_again
from spark.table.write_lease import lend_to_spark

Task = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
ReadRecords = Callable[[Sequence[TopicRange]], DataFrame]
ReadRanges = Callable[[BronzeSpec, Sequence[TopicRange]], list[pa.Table]]
"""spark.bronze.range_reader.read_ranges, or another way to the same records."""
OFFSETS_A_PART, MOST_OFFSETS_A_PART = 25_000, 125_000
"""A second task costs 0.1 s, in which one reads about as many; and a task holds all that it reads."""
MOST_HERE, MOST_BYTES_HERE = 200_000, 64 << 20
"""Records of Spark's that the client writes as one file, and their bytes; also those of a file that a task writes."""
_SCHEMA = "result string, left string"


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""
    done = append_by_tasks(session, spec).result if can_append_by_tasks(spec) else None
    return append_by_spark(session, spec) if done is None else done


def append_by_spark(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """The same; Spark reads the records and decodes them."""

    def read(topics: Sequence[TopicRange]) -> DataFrame:
        return kafka_ranges.read(session, spec, topics)

    with kafka_ranges.refusals_named((spec.bootstrap, spec.login)):
        return run_again(lambda: append(session, spec, read))


def append(session: SparkSession, spec: BronzeSpec, read: ReadRecords) -> JobResult:
    """Append the records that `read` gives for the ranges not committed yet, in the columns of Spark's Kafka source.

    Raises:
        CommitLeftOutError: somebody else has appended some of them meanwhile.
    """
    started, missing = time.monotonic(), find_missing_ranges(spec)
    if not missing.todo:
        return append_result(None, {}, [], started)
    filled = [topic for topic in missing.todo if topic.has_offsets]
    commit = partial(commit_parts, spec, started=started, lend=lend_to_spark)
    try:
        if not filled:
            return commit([])
        spark_plans.suit(session, events=sum(end - start for t in filled for start, end in t.ranges.values()))
        drafts, groups = _draft_and_count(read(filled), filled, missing.committed)
        try:
            # Log positions of other incarnations of a topic mean nothing here.
            epochs = {t.topic: t.epoch for t in filled}
            same = {n: state for n, state in missing.committed.topics.items() if state.epoch == epochs.get(n)}
            committed = replace(missing.committed, topics=same)
            placed, openings = batch_records.assign_positions(drafts, groups, committed)
            events = batch_records.reposition_reloads(placed, groups, filled, committed)
            shares = batch_records.shares(missing.todo, groups, None if events is drafts else events, openings)
            return commit(_write_events(spec, missing, events, groups), shares=shares)
        finally:
            drafts.unpersist()
    except LeftToSparkError as error:
        raise CommitLeftOutError(f"{spec.path}: {error}") from error


def _draft_and_count(records: DataFrame, topics: Sequence[TopicRange], committed: Committed) -> tuple[DataFrame, list[Group]]:
    """The records as drafts, kept in memory, and what they are in numbers; looked at twice where one has a new schema."""
    schema_ids = {name: state.schema_ids for name, state in committed.topics.items()}
    with kafka_ranges.losses_named(topics):
        drafts, groups = _persist_and_count(batch_records.drafts(records, topics, schema_ids), topics)
        if batch_records.unknown_schemas(groups, topics, schema_ids):
            drafts.unpersist()
            drafts, groups = _persist_and_count(batch_records.drafts(records, topics), topics)
    return drafts, groups


def _persist_and_count(drafts: DataFrame, topics: Sequence[TopicRange]) -> tuple[DataFrame, list[Group]]:
    persisted = drafts.persist()
    try:
        return persisted, batch_records.count_groups(persisted, topics)
    except BaseException:
        persisted.unpersist()
        raise


def _write_events(spec: BronzeSpec, missing: MissingRanges, events: DataFrame, groups: Sequence[Group]) -> list[BatchPart]:
    """The events as files, one where they are few. Where executors have no Python, the client writes a partition at a time."""
    rows = events.select(*[sf.col(name).cast(kind).alias(name) for name, kind, _ in BRONZE_COLUMNS])
    if sum(g.records for g in groups) <= MOST_HERE and sum(g.size for g in groups) <= MOST_BYTES_HERE:
        return [write_part(spec.path, missing.identity, rows.toArrow())]
    if small_work_lack(events.sparkSession):
        parts = range(events.select(sf.spark_partition_id().alias("n")).agg(sf.max("n").alias("n")).collect()[0].n + 1)
        return [write_part(spec.path, missing.identity, rows.where(sf.spark_partition_id() == n).toArrow()) for n in parts]
    task = partial(write_events_in_task, spec.path, missing.identity)
    return [BatchPart.from_json(row.result) for row in rows.mapInArrow(task, _SCHEMA).collect()]


def write_events_in_task(path: str, identity: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: files of the rows of one partition, each as large as one that the client writes."""
    for rows in _in_pieces(batches):
        yield _row(write_part(path, identity, rows).to_json(), None)


def _in_pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    piece: list[pa.RecordBatch] = []
    for batch in batches:
        piece.append(batch)
        if sum(b.num_rows for b in piece) >= MOST_HERE or sum(b.nbytes for b in piece) >= MOST_BYTES_HERE:
            yield pa.Table.from_batches(piece)
            piece = []
    if piece:
        yield pa.Table.from_batches(piece)


def can_append_by_tasks(spec: BronzeSpec) -> bool:
    """Whether tasks may append it, however large it is: records that they read."""
    read = all(topic.envelope == ENVELOPE and topic.connector in CONNECTORS for topic in spec.topics if topic.has_offsets)
    return read and not spec.kafka_options


@dataclass(frozen=True)
class SmallBatchOutcome:
    """What became of a batch: the job's result, or why it is left to Spark."""

    result: JobResult | None
    left: str = ""


def append_by_tasks(session: SparkSession, spec: BronzeSpec) -> SmallBatchOutcome:
    """Files by tasks, and their commit by the client; or nothing at all, and why.

    Where executors have no Python, the client does what tasks do, one after the other.
    """
    started, parts = time.monotonic(), count_parts(session, spec)
    run = _run_here if small_work_lack(session) else partial(_run_tasks, session)
    try:
        rows = run(parts, partial(write_part_in_task, spec.to_json(), parts))
        written = [BatchPart.from_json(row["result"]) for row in rows if row["result"]]
        if left := next((row["left"] for row in rows if row["left"]), ""):
            part_files.discard_parts(spec, written)
            return SmallBatchOutcome(None, left)
        return SmallBatchOutcome(commit_parts(spec, written, started=started))
    except SparkJobError as error:
        return SmallBatchOutcome(None, f"{type(error).__name__}: {str(error)[:500]}")
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


def _run_tasks(session: SparkSession, tasks: int, task: Task) -> Sequence[Mapping[str, str | None]]:
    return [row.asDict() for row in session.range(0, tasks, 1, tasks).mapInArrow(task, _SCHEMA).collect()]


def _run_here(tasks: int, task: Task) -> Sequence[Mapping[str, str | None]]:
    numbers = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(tasks))
    return [row for answer in task(numbers) for row in answer.to_pylist()]


def write_ranges(spec: BronzeSpec, number: int, parts: int, read_ranges: ReadRanges = range_reader.read_ranges) -> BatchPart:
    """Part `number` of `parts` of what is not committed yet: a file that no commit names. Others may append meanwhile.

    Raises:
        LeftToSparkError: Spark has to look at it.
        JobRefusedError: as find_missing_ranges.
    """
    missing = find_missing_ranges(spec)
    own = part_files.divide_ranges(missing.todo, parts)[number : number + 1]
    filled = [topic for topics in own for topic in topics if topic.has_offsets]
    records = decode_records(read_ranges(spec, filled), filled)
    groups = part_files.count_groups(records) if records.num_rows else ()
    return write_part(spec.path, missing.identity, records, groups)


def write_part_in_task(spec: str, parts: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the parts whose numbers the batches hold."""

    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                yield _row(write_ranges(BronzeSpec.from_json(spec), number, parts).to_json(), None)
            except Exception as error:  # noqa: BLE001 - Spark's own append does it, or says what is wrong
                yield _row(None, f"{type(error).__name__}: {str(error)[:500]}")


def _row(result: str | None, left: str | None) -> pa.RecordBatch:
    schema = pa.schema([("result", pa.string()), ("left", pa.string())])
    return pa.RecordBatch.from_pylist([{"result": result, "left": left}], schema=schema)
