"""A source's topics carried on and on by Structured Streaming: what bronze lacks of the topics, then every table that
has news, with the jobs' own commits.

`availableNow` carries what is there and ends; an interval goes on until it is stopped. The checkpoint only says up to
which offsets a batch goes; where it begins, bronze's log says. So a kill at any moment, a batch played again, a lost
or old checkpoint and another writer's append leave no gap and no copy.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze import append_job as bronze_job
from spark.errors import JobRefusedError
from spark.events.kafka_source import refusals_named
from spark.events.moved_offsets import our_offset
from spark.silver import fold_job as silver_job
from spark.silver import history_job, small_tables
from spark.specs import BronzeSpec, JobResult, SilverSpec, StreamSpec, TopicRange
from spark.table.commit_metadata import Committed, fold
from spark.table.delta_table import table_of

Ends = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


def ends_of_batch(session: SparkSession, checkpoint: str, batch: int) -> Ends:
    """The offsets that the batch goes up to.

    Spark writes it into the checkpoint before the batch begins. A file of
    https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/OffsetSeqLog.scala
    is a line with the version, one with settings, and one per source: Kafka's is `{"topic":{"0":12}}`.

    Raises:
        JobRefusedError: the checkpoint does not say it in the form that we know.
    """
    path = f"{checkpoint}/offsets/{batch}"
    return _ends([row.value for row in session.read.text(path).collect()], path)


def newest_ends(session: SparkSession, checkpoint: str) -> Ends:
    """Those of the newest batch that the checkpoint knows; nothing where there is none."""
    from pyspark.errors import AnalysisException

    path = f"{checkpoint}/offsets"
    try:
        named = session.read.text(path).withColumn("batch", sf.regexp_extract(sf.input_file_name(), r"/(\d+)$", 1))
        newest = named.where("batch <> ''").select(sf.max(sf.col("batch").cast("bigint")).alias("newest")).first()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return {}
    return {} if newest is None or newest.newest is None else ends_of_batch(session, checkpoint, newest.newest)


def _ends(lines: list[str], path: str) -> Ends:
    if len(lines) != 3 or lines[0] != "v1":
        raise JobRefusedError(f"{path} is no file of offsets that is known here; remove the checkpoint: bronze knows more")
    # A batch in which the source had nothing yet.
    if lines[2] == "-":
        return {}
    return {topic: {int(p): int(end) for p, end in ends.items()} for topic, ends in json.loads(lines[2]).items()}


@dataclass
class Carrier:
    """Carries a source's topics; `say` is told each result that is a commit, and `done` keeps them.

    Bronze's own log says where each partition goes on. So a batch that is played again, an old checkpoint and another
    writer's append leave nothing out and bring nothing twice: what is there already is not appended again.
    """

    session: SparkSession
    spec: StreamSpec
    say: Callable[[JobResult], None]
    done: list[JobResult] = field(default_factory=list)

    def carry(self, ends: Ends) -> None:
        """Bronze up to these offsets, and all that bronze has into the tables."""
        for window in windows(self._ranges(ends), self.spec.max_offsets):
            bronze = replace(self.spec.bronze, topics=tuple(window), operation_id=f"stream:{uuid.uuid4().hex[:8]}")
            self._tell(bronze_job.run(self.session, bronze))
        self.fold()

    def fold(self) -> None:
        """Each table that has news: the small ones by one job, the others by a job each, and then histories."""
        committed = self._look_at_bronze()
        behind = [spec for spec in self.spec.silver if self._has_news(spec, committed)]
        small = [spec for spec in behind if not small_tables.reason_against(spec)]
        outcomes = small_tables.run(self.session, small_tables.SmallTablesSpec(tuple(small)))
        by_task = {outcome.spec.table: outcome.result for outcome in outcomes if outcome.result is not None}
        for spec in behind:
            self._tell(by_task.get(spec.table) or silver_job.run(self.session, spec))
        for spec in self.spec.history:
            if self._has_news(spec, committed):
                self._tell(history_job.run(self.session, spec))

    def _tell(self, result: JobResult) -> None:
        if result.version is not None:
            self.done.append(result)
            self.say(result)

    def _look_at_bronze(self) -> Committed:
        return table_of(self.spec.bronze.path).fold(fold)

    def _has_news(self, spec: SilverSpec, committed: Committed) -> bool:
        return silver_job.has_news(committed.of_table(spec.table), table_of(spec.path).silver_folded())

    def _ranges(self, ends: Ends) -> list[TopicRange]:
        """What bronze lacks. An epoch's first append names every partition, also one of which there is nothing to read."""
        committed = self._look_at_bronze()
        lacking = []
        for topic in self.spec.bronze.topics:
            state = committed.topics.get(topic.topic)
            begun = state is not None and state.epoch >= topic.epoch
            ranges = {}
            for partition, reached in ends.get(topic.topic, {}).items():
                end = our_offset(topic.moved.get(partition, ()), reached)
                first = topic.ranges.get(partition, (0, 0))[0]
                start = state.positions.get(partition, 0) if begun and state is not None else first
                if end > start or not begun:
                    ranges[partition] = (start, max(start, end))
            if ranges:
                lacking.append(replace(topic, ranges=ranges))
        return lacking


def windows(topics: Sequence[TopicRange], most: int) -> Iterator[list[TopicRange]]:
    """The ranges in parts of about so many offsets at most, each partition's in their order."""
    count = sum(len(topic.ranges) for topic in topics)
    step, number = max(1, most // max(1, count)), 0
    while True:
        window = []
        for topic in topics:
            cut = {p: (min(s + number * step, e), min(s + (number + 1) * step, e)) for p, (s, e) in topic.ranges.items()}
            left = {p: r for p, r in cut.items() if r[0] < r[1] or number == 0}
            if left:
                window.append(replace(topic, ranges=left))
        if not window:
            return
        yield window
        number += 1


def bronze_options(spec: BronzeSpec) -> dict[str, str]:
    """What Spark's streaming source is told: from the start, since bronze's log knows where to go on, up to what is committed.

    Offsets that are gone from the topic are judged when they are read for bronze, which names a loss.
    """
    from spark.events.kafka_login import read_login

    return {
        "kafka.bootstrap.servers": spec.bootstrap,
        **spec.kafka_options,
        **(read_login(spec.login).spark_options() if spec.login else {}),
        "kafka.isolation.level": "read_committed",
        "subscribe": ",".join(topic.topic for topic in spec.topics),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }


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
        JobRefusedError: no such trigger, or the session is one of Spark Connect.
        SparkJobError: what stands in a batch's way, by its own name.
    """
    from pyspark.errors import StreamingQueryException

    started, when = time.monotonic(), parse_trigger(trigger)
    if not hasattr(session, "sparkContext") or type(session).__module__.startswith("pyspark.sql.connect"):
        raise JobRefusedError("the stream runs in the driver of spark-submit: leave --remote out")
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
    """`availableNow`, or an interval such as `5 seconds`. Raises JobRefusedError: it is neither."""
    if text == AVAILABLE_NOW:
        return {"availableNow": True}
    if not _INTERVAL.fullmatch(text):
        raise JobRefusedError(f"trigger {text!r} is neither {AVAILABLE_NOW} nor an interval such as '5 seconds'")
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
