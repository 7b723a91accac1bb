"""One batch of the stream: what bronze lacks of the topics up to some offsets, then every table that has news.

Bronze's own log says where each partition goes on. So a batch that is played again, an old checkpoint and another writer's
append leave nothing out and bring nothing twice: what is there already is not appended again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from spark.delta.commits import Committed, fold
from spark.delta.log import fold_history, silver_folded
from spark.history import job as history_job
from spark.kafka.moved_offsets import our_offset
from spark.silver import job as silver_job
from spark.small_batches import job as small_batches
from spark.small_tables import job as small_tables
from spark.specs import BronzeSpec, JobResult, SilverSpec, TopicRange
from spark.stream.checkpoint import Ends
from spark.stream.stream_spec import StreamSpec


@dataclass
class Carrier:
    """Carries a source's topics; `say` is told each result that is a commit, and `done` keeps them."""

    session: SparkSession
    spec: StreamSpec
    say: Callable[[JobResult], None]
    done: list[JobResult] = field(default_factory=list)

    def carry(self, ends: Ends) -> None:
        """Bronze up to these offsets, and all that bronze has into the tables."""
        for part in windows(self._ranges(ends), self.spec.max_offsets):
            bronze = replace(self.spec.bronze, topics=tuple(part), operation_id=f"stream:{uuid.uuid4().hex[:8]}")
            self._tell(small_batches.run(self.session, bronze))
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
        return fold_history(self.session, self.spec.bronze.path, fold)

    def _has_news(self, spec: SilverSpec, committed: Committed) -> bool:
        return silver_job.has_news(committed.of_table(spec.table), silver_folded(self.session, spec.path))

    def _ranges(self, ends: Ends) -> list[TopicRange]:
        """What bronze lacks. An epoch's first append names every partition, also one of which there is nothing to read."""
        committed = self._look_at_bronze()
        found = []
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
                found.append(replace(topic, ranges=ranges))
        return found


def windows(topics: Sequence[TopicRange], most: int) -> Iterator[list[TopicRange]]:
    """The ranges in parts of about so many offsets at most, each partition's in their order."""
    count = sum(len(topic.ranges) for topic in topics)
    step, number = max(1, most // max(1, count)), 0
    while True:
        part = []
        for topic in topics:
            cut = {p: (min(s + number * step, e), min(s + (number + 1) * step, e)) for p, (s, e) in topic.ranges.items()}
            left = {p: r for p, r in cut.items() if r[0] < r[1] or number == 0}
            if left:
                part.append(replace(topic, ranges=left))
        if not part:
            return
        yield part
        number += 1


def bronze_options(spec: BronzeSpec) -> dict[str, str]:
    """What Spark's streaming source is told: from the start, since bronze's log knows where to go on, up to what is committed.

    Offsets that are gone from the topic are judged when they are read for bronze, which names a loss.
    """
    from spark.kafka.login import read_login

    return {
        "kafka.bootstrap.servers": spec.bootstrap,
        **spec.kafka_options,
        **(read_login(spec.login).spark_options() if spec.login else {}),
        "kafka.isolation.level": "read_committed",
        "subscribe": ",".join(topic.topic for topic in spec.topics),
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
