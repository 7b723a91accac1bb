"""A small lake for tests: records given as lists instead of Kafka, real jobs, and delta-rs as the second reader."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_assets.connectors.unchanged_value import PUBLIC as UNAVAILABLE_VALUE
from cdc_assets_tests.support.lake.capture import Record
from spark.small_batches.reading import SCHEMA
from spark.specs import BronzeSpec, Column, JobResult, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KAFKA_DDL = (
    "topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>, key binary, value binary"
)
ID_V = (Column("id", "integer", False), Column("v", "text"))


@dataclass
class Lake:
    """One source with tables of one topic each."""

    session: SparkSession
    root: Path
    epoch: int = 0
    topic_id: str = "topic-id"
    log: dict[str, dict[int, list[Record]]] = field(default_factory=dict)
    form: tuple[str, str] = ("debezium-json", "postgresql")
    by_task: bool = True
    """Whether the next fold may be a task's: the two writers of silver take turns."""
    folded_by_tasks: int = 0
    appended_by_tasks: int = 0
    append_by_task: bool = False
    """Whether the last append was to be; the two writers of bronze take turns as well."""

    @property
    def bronze_path(self) -> str:
        return str(self.root / "bronze" / "source")

    def put(self, table: str, *records: Record, partition: int = 0) -> None:
        self.log.setdefault(table, {}).setdefault(partition, []).extend(records)

    def ranges(self, table: str, ends: dict[int, int], *, start: int = 0) -> TopicRange:
        topic = f"core.source.public.{table}"
        return TopicRange(table, topic, self.topic_id, self.epoch, {p: (start, end) for p, end in ends.items()}, *self.form)

    def append(self, *ranges: TopicRange, operation_id: str | None = None, session: SparkSession | None = None) -> JobResult:
        """Bronze up to these offsets, through the writers' own code from the point where Kafka has been read.

        By the two writers in turns, as `fold`; by Spark in a `session` of the caller's.
        """
        from spark.bronze import job as bronze
        from spark.delta.conflicts import run_again

        own = session or self.session
        spec = BronzeSpec(self.bronze_path, "none", ranges, operation_id or uuid.uuid4().hex)
        self.append_by_task = session is None and not self.append_by_task
        if self.append_by_task and (done := self._append_as_task(spec)) is not None:
            self.appended_by_tasks += done.version is not None
            return done
        return run_again(lambda: bronze.append(own, spec, lambda topics: self._read(own, topics)))

    def _append_as_task(self, spec: BronzeSpec) -> JobResult | None:
        """As a task does it, in this process; None is what it leaves to Spark, which does it or says what is wrong."""
        from spark.errors import SparkJobError
        from spark.small_batches import task
        from spark.small_batches.job import is_small

        if not is_small(spec):
            return None
        try:
            return task.append(spec, lambda _, topics: [self._records(topics)])
        except (SparkJobError, pa.ArrowException):
            return None

    def all_of(self, table: str) -> TopicRange:
        return self.ranges(table, {p: rs[-1].offset + 1 for p, rs in self.log[table].items()})

    def _read(self, session: SparkSession, topics: Sequence[TopicRange]) -> DataFrame:
        return session.createDataFrame(self._records(topics), KAFKA_DDL)

    def _records(self, topics: Sequence[TopicRange]) -> pa.Table:
        rows: list[dict[str, Any]] = []
        for topic in topics:
            for partition, (start, end) in topic.ranges.items():
                for record in self.log[topic.table].get(partition, []):
                    if start <= record.offset < end:
                        rows.append(_kafka_row(topic.topic, partition, record))
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def spec(self, table: str, columns: Sequence[Column] = ID_V, keys: Sequence[str] = ("id",)) -> SilverSpec:
        path = str(self.root / "silver" / "source" / table)
        form = {"envelope": self.form[0], "connector": self.form[1], "unavailable": UNAVAILABLE_VALUE}
        return SilverSpec("source", table, self.bronze_path, path, tuple(columns), tuple(keys), **form)

    def fold(self, spec: SilverSpec, *, limit: int | None = None) -> JobResult:
        """By the two writers of silver in turns: what a task leaves, and each second one, is Spark's."""
        from spark.silver import job as silver
        from spark.small_tables import job as small_tables

        self.by_task = not self.by_task
        if not self.by_task:
            [outcome] = small_tables.run(self.session, small_tables.SmallTablesSpec((spec,), limit))
            assert not [word for word in ("failed", "Error") if word in outcome.left], outcome.left
            if outcome.result is not None:
                self.folded_by_tasks += outcome.result.version is not None
                return outcome.result
        return silver.run(self.session, replace(spec, folded_limit=limit))


def _kafka_row(topic: str, partition: int, record: Record) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=record.offset),
        "headers": [{"key": name, "value": text.encode()} for name, text in record.headers.items()]
        or None,  # as Spark reads a record without any
        "key": None if record.key is None else record.key.encode(),
        "value": None if record.value is None else record.value.encode(),
    }


def rows(path: str) -> list[dict[str, Any]]:
    """The table as delta-rs reads it."""
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table().to_pylist()


def values(path: str) -> list[dict[str, Any]]:
    """The source's own columns only."""
    return [{k: v for k, v in row.items() if not k.startswith("_cdc_")} for row in rows(path)]
