"""A small lake for tests: records given as lists instead of Kafka, real jobs, and delta-rs as the second reader.

Each step is a task's where it can be, and Spark's where a task leaves it. At the end Spark makes all of it once more, at once,
and both are compared (both_writers).
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as UNAVAILABLE_VALUE
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.steps import Log, Steps
from spark.bronze.range_reader import SCHEMA
from spark.specs import KAFKA_SCHEMA, BronzeSpec, Column, JobResult, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark.bronze.append_job import ReadRanges

ID_V = (Column("id", "integer", False), Column("v", "text"))
WRITTEN: dict[int, Lake] = {}
"""The lakes that have been written and not compared since, by the identity of their steps."""


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
    """Whether a task does what it can; False where a test is about Spark's own step."""
    not_compared: str = ""
    """Why what Spark makes at once would be another lake; empty: it is compared at the end."""
    steps: Steps = field(default_factory=Steps)
    """Those of its copies with other sessions as well."""

    @property
    def folded_by_tasks(self) -> int:
        return sum(table.by_tasks for table in self.steps.tables.values())

    @property
    def appended_by_tasks(self) -> int:
        return self.steps.appended_by_tasks

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

        By a task where it can, as `fold`; by Spark in a `session` of the caller's.
        """
        from spark.bronze import append_job as bronze
        from spark.table.spark_failures import run_again

        own = session or self.session
        spec = BronzeSpec(self.bronze_path, "none", ranges, operation_id or uuid.uuid4().hex)
        done = self._append_as_task(spec) if self.by_task and session is None else None
        by_task = done is not None
        if done is None:
            done = run_again(lambda: bronze.append(own, spec, lambda topics: self._read(own, topics)))
        self.steps.note_append(ranges, self.log, done, by_task=by_task)
        WRITTEN.setdefault(id(self.steps), self)
        return done

    def _append_as_task(self, spec: BronzeSpec) -> JobResult | None:
        """As a task does it, in this process; None is what it leaves to Spark, which does it or says what is wrong."""
        from spark.bronze import append_job
        from spark.errors import SparkJobError

        if not append_job.can_append_by_tasks(spec):
            return None
        try:
            return append_here(spec, lambda _, topics: [kafka_records(topics, self.log)])
        except (SparkJobError, pa.ArrowException):
            return None

    def all_of(self, table: str) -> TopicRange:
        return self.ranges(table, {p: rs[-1].offset + 1 for p, rs in self.log[table].items()})

    def _read(self, session: SparkSession, topics: Sequence[TopicRange]) -> DataFrame:
        return session.createDataFrame(kafka_records(topics, self.log), KAFKA_SCHEMA)

    def spec(self, table: str, columns: Sequence[Column] = ID_V, keys: Sequence[str] = ("id",)) -> SilverSpec:
        path = str(self.root / "silver" / "source" / table)
        form = {"envelope": self.form[0], "connector": self.form[1], "unavailable": UNAVAILABLE_VALUE}
        return SilverSpec("source", table, self.bronze_path, path, tuple(columns), tuple(keys), **form)

    def fold(self, spec: SilverSpec, *, limit: int | None = None) -> JobResult:
        """By a task where it can; what it leaves is Spark's."""
        from spark.silver import fold_job as silver

        before = self.steps.rules_before(spec)
        done = self._fold_as_task(spec, limit) if self.by_task else None
        by_task = done is not None
        if done is None:
            done = silver.run(self.session, replace(spec, folded_limit=limit))
        self.steps.note_fold(spec, before, done, by_task=by_task)
        WRITTEN.setdefault(id(self.steps), self)
        return done

    def _fold_as_task(self, spec: SilverSpec, limit: int | None) -> JobResult | None:
        from spark.silver import small_tables

        [outcome] = small_tables.run(self.session, small_tables.SmallTablesSpec((spec,), limit))
        assert not [word for word in ("failed", "Error") if word in outcome.left], outcome.left
        return outcome.result


def append_here(spec: BronzeSpec, read_ranges: ReadRanges) -> JobResult:
    """As one task writes it and the client commits it, in this process; `read_ranges` as spark.bronze.append_job.write_ranges."""
    from spark.bronze.append_job import write_ranges
    from spark.bronze.part_files import commit_parts

    return commit_parts(spec, [write_ranges(spec, 0, 1, read_ranges)], started=time.monotonic())


def kafka_records(topics: Sequence[TopicRange], log: Log) -> pa.Table:
    """What of the log is in the ranges, in the columns of Spark's Kafka source."""
    rows: list[dict[str, Any]] = []
    for topic in topics:
        for partition, (start, end) in topic.ranges.items():
            for record in log[topic.table].get(partition, []):
                if start <= record.offset < end:
                    rows.append(_kafka_row(topic.topic, partition, record))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


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
