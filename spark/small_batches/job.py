"""A small append by the tasks of a Spark job; what they leave, spark.bronze.job appends, to the same table and commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from spark.bronze import job as bronze_job
from spark.delta.failures import SPARK_FAILURES, error_text, is_closed_session
from spark.delta.server_facts import small_work_lack
from spark.lake.place import is_reached
from spark.small_batches.narrow import CONNECTORS
from spark.small_batches.parts import BatchPart
from spark.small_tables.rules import ENVELOPE
from spark.specs import BronzeSpec, JobResult

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

MOST_OFFSETS = 1_000_000
"""Of all topics together. One of them reads 500,000 by an append unless it is told otherwise (`batching.max_records`)."""
OFFSETS_A_PART, MOST_OFFSETS_A_PART = 25_000, 125_000
"""A second task costs 0.1 s, in which one reads about as many; and a task holds all that it reads."""
_SCHEMA = "result string, left string"


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""
    done = append(session, spec).result if is_small(spec) else None
    return bronze_job.run(session, spec) if done is None else done


def is_small(spec: BronzeSpec) -> bool:
    """Whether a task may append it: few offsets, of records that it reads, to a lake that it reaches."""
    offsets = sum(end - start for topic in spec.topics for start, end in topic.ranges.values())
    read = all(topic.envelope == ENVELOPE and topic.connector in CONNECTORS for topic in spec.topics)
    return read and 0 < offsets <= MOST_OFFSETS and is_reached(spec.path) and not spec.kafka_options


@dataclass(frozen=True)
class SmallBatchOutcome:
    """What became of a batch: the job's result, or why it is left to Spark."""

    result: JobResult | None
    left: str = ""


def append(session: SparkSession, spec: BronzeSpec) -> SmallBatchOutcome:
    """By tasks, or not at all."""
    if lack := small_work_lack(session):
        return SmallBatchOutcome(None, f"Spark's executors cannot do it in Python: {lack}")
    parts = count_parts(session, spec)
    try:
        if parts > 1:
            return _append_in_parts(session, spec, parts)
        return _outcome_of(_run(session, 1, partial(append_in_task, spec.to_json())))
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
    rows = _run(session, parts, partial(write_part_in_task, spec.to_json(), parts))
    written = [row.result for row in rows if row.result]
    if left := next((row.left for row in rows if row.left), ""):
        _run(session, 1, partial(discard_in_task, spec.to_json(), written))
        return SmallBatchOutcome(None, left)
    outcome = _outcome_of(_run(session, 1, partial(commit_in_task, spec.to_json(), written)))
    if outcome.result is None:
        return outcome
    return SmallBatchOutcome(replace(outcome.result, seconds=round(time.monotonic() - started, 3)))


def _run(session: SparkSession, tasks: int, work: Callable[..., Iterator[pa.RecordBatch]]) -> list[Row]:
    return session.range(0, tasks, 1, tasks).mapInArrow(work, _SCHEMA).collect()


def _outcome_of(rows: list[Row]) -> SmallBatchOutcome:
    [row] = rows
    return SmallBatchOutcome(JobResult.from_json(row.result) if row.result else None, row.left or "")


def append_in_task(spec: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the append."""
    from spark.small_batches import task

    for _ in batches:
        yield _answer(partial(task.append, BronzeSpec.from_json(spec)))


def write_part_in_task(spec: str, parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the parts whose numbers the batches hold."""
    from spark.small_batches import task

    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _answer(partial(task.write_part, BronzeSpec.from_json(spec), number, parts))


def commit_in_task(spec: str, written: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the commit of what tasks have written."""
    from spark.small_batches import task

    asked, parts = BronzeSpec.from_json(spec), [BatchPart.from_json(text) for text in written]
    for _ in batches:
        yield _answer(partial(task.commit_parts, asked, parts))


def discard_in_task(spec: str, written: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the files of parts go that nobody will commit."""
    from spark.small_batches import task

    asked, parts = BronzeSpec.from_json(spec), [BatchPart.from_json(text) for text in written]
    for _ in batches:
        task.discard_parts(asked, parts)
        yield _row("", "")


def _answer(work: Callable[[], JobResult | BatchPart]) -> pa.RecordBatch:
    try:
        return _row(work().to_json(), None)
    except Exception as error:  # noqa: BLE001 - Spark's own append does it, or says what is wrong
        return _row(None, f"{type(error).__name__}: {str(error)[:500]}")


def _row(result: str | None, left: str | None) -> pa.RecordBatch:
    import pyarrow as pa

    schema = pa.schema([("result", pa.string()), ("left", pa.string())])
    return pa.RecordBatch.from_pylist([{"result": result, "left": left}], schema=schema)
