"""A small append by one Spark job of one task; what that leaves, spark.bronze.job appends, to the same table and commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark.bronze import job as bronze_job
from spark.delta.failures import SPARK_FAILURES, error_text, is_closed_session
from spark.delta.lease import is_local
from spark.delta.server_facts import small_work_lack
from spark.small_batches.narrow import CONNECTORS
from spark.small_tables.rules import ENVELOPE
from spark.specs import BronzeSpec, JobResult

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MOST_OFFSETS = 250_000
"""What a source reads by one append unless it is told otherwise (`batching.max_records`)."""
_SCHEMA = "result string, left string"


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""
    done = append(session, spec).result if is_small(spec) else None
    return bronze_job.run(session, spec) if done is None else done


def is_small(spec: BronzeSpec) -> bool:
    """Whether a task may append it: few offsets, of records that it reads, to a lake on a local disk."""
    offsets = sum(end - start for topic in spec.topics for start, end in topic.ranges.values())
    read = all(topic.envelope == ENVELOPE and topic.connector in CONNECTORS for topic in spec.topics)
    return read and 0 < offsets <= MOST_OFFSETS and is_local(spec.path) and not spec.kafka_options


@dataclass(frozen=True)
class SmallBatchOutcome:
    """What became of a batch: the job's result, or why it is left to Spark."""

    result: JobResult | None
    left: str = ""


def append(session: SparkSession, spec: BronzeSpec) -> SmallBatchOutcome:
    """By a task, or not at all."""
    if lack := small_work_lack(session):
        return SmallBatchOutcome(None, f"Spark's executors cannot do it in Python: {lack}")
    try:
        [row] = session.range(0, 1, 1, 1).mapInArrow(partial(append_in_task, spec.to_json()), _SCHEMA).collect()
    except SPARK_FAILURES as error:
        if is_closed_session(error):
            raise
        # Whatever it was, Spark's own append meets it, or does without: the log says what is committed.
        return SmallBatchOutcome(None, f"the job of small batches failed: {error_text(error)[:500]}")
    return SmallBatchOutcome(JobResult.from_json(row.result) if row.result else None, row.left or "")


def append_in_task(spec: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the append."""
    import pyarrow as pa

    from spark.small_batches import task

    for _ in batches:
        row: dict[str, str | None]
        try:
            row = {"result": task.append(BronzeSpec.from_json(spec)).to_json(), "left": None}
        except Exception as error:  # noqa: BLE001 - Spark's own append does it, or says what is wrong
            row = {"result": None, "left": f"{type(error).__name__}: {str(error)[:500]}"}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema([("result", pa.string()), ("left", pa.string())]))
