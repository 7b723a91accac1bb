"""The query of the stream: `availableNow` carries what is there and ends, an interval goes on until it is stopped.

A kill at any moment, a lost checkpoint and one from last week leave no gap and no copy (spark.stream.carrying).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.errors import SpecError
from spark.kafka.offset_ranges import refusals_named
from spark.specs import JobResult
from spark.stream.carrying import Carrier, bronze_options
from spark.stream.checkpoint import ends_of_batch, newest_ends
from spark.stream.stream_spec import StreamSpec

AVAILABLE_NOW = "availableNow"
_INTERVAL = re.compile(r"\d+ (milliseconds?|seconds?|minutes?|hours?)")


def settings() -> dict[str, str]:
    """Of the session: tasks find this package where the executors have it at the same place."""
    root = Path(__file__).resolve().parents[len(__name__.split(".")) - 1]
    return {"spark.executorEnv.PYTHONPATH": str(root)}


def run(
    session: SparkSession, spec: StreamSpec, *, trigger: str = AVAILABLE_NOW, say: Callable[[JobResult], None] = lambda _: None
) -> JobResult:
    """Carry the topics; with an interval (`5 seconds`) this ends only by an error or a stop.

    Raises:
        SpecError: no such trigger, or the session is one of Spark Connect.
        SparkJobError: what stands in a batch's way, by its own name.
    """
    from pyspark.errors import StreamingQueryException

    started, when = time.monotonic(), parse_trigger(trigger)
    if not hasattr(session, "sparkContext") or type(session).__module__.startswith("pyspark.sql.connect"):
        raise SpecError("the stream runs in the driver of spark-submit: leave --remote out")
    carrier, failures = Carrier(session, spec, say), list[Exception]()

    def carry_batch(_: DataFrame, batch: int) -> None:
        try:
            carrier.carry(ends_of_batch(session, spec.checkpoint, batch))
        except Exception as error:
            # Spark would tell it as text, with its own stack.
            failures.append(error)
            raise

    with refusals_named((spec.bronze.bootstrap, spec.bronze.login)):
        # A checkpoint may be ahead of a bronze that was restored: no new record would tell.
        carrier.carry(newest_ends(session, spec.checkpoint))
        records = session.readStream.format("kafka").options(**bronze_options(spec.bronze)).load()
        writer = records.writeStream.foreachBatch(carry_batch).option("checkpointLocation", spec.checkpoint)
        query = writer.trigger(**when).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            if failures:
                raise failures[0] from None
            raise
    return _total(carrier.done, started)


def parse_trigger(text: str) -> dict[str, Any]:
    """`availableNow`, or an interval such as `5 seconds`.

    Raises:
        SpecError: it is neither.
    """
    if text == AVAILABLE_NOW:
        return {"availableNow": True}
    if not _INTERVAL.fullmatch(text):
        raise SpecError(f"trigger {text!r} is neither {AVAILABLE_NOW} nor an interval such as '5 seconds'")
    return {"processingTime": text}


def _total(done: list[JobResult], started: float) -> JobResult:
    bronze = [result for result in done if result.job == "bronze"]
    by_op: Counter[str] = Counter()
    for result in bronze:
        by_op.update(result.by_op)
    return JobResult(
        job="stream",
        table=None,
        version=None,
        rows_read=sum(result.rows_read for result in bronze),
        rows_inserted=sum(result.rows_inserted for result in bronze),
        rows_updated=0,
        rows_deleted=0,
        by_op=dict(by_op),
        ranges={},
        seconds=round(time.monotonic() - started, 3),
        detail={"commits": dict(Counter(result.job for result in done))},
    )
