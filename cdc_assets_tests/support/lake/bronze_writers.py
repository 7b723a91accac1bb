"""Writers of one bronze table, alone and at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from confluent_kafka import Producer

from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.check_specs import RECORD_PARITY
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry import names
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.topics import Broker
from spark.specs import JobResult, TopicRange
from spark.table.spark_session import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Meeting(Lake):
    """A lake whose writers have all looked at the log before the first of them reads on."""

    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    met: set[int] = field(default_factory=set)
    reads: Counter[str] = field(default_factory=Counter)

    def _read(self, session: SparkSession, topics: Sequence[TopicRange]) -> DataFrame:
        self.reads.update(topic.table for topic in topics)
        if threading.get_ident() not in self.met:
            self.met.add(threading.get_ident())
            self.together.wait(120)
        return super()._read(session, topics)

    def at_once(self, *asked: tuple[str, TopicRange]) -> list[JobResult]:
        """Each by a writer of its own, on the Spark Connect server at that address."""
        self.reads.clear()
        self.met.clear()
        with ThreadPoolExecutor(len(asked)) as pool:
            writers = [(connect(remote), ranges) for remote, ranges in asked]
            found = [pool.submit(self.append, ranges, session=own) for own, ranges in writers]
            return [each.result(300) for each in found]


def offsets(path: str) -> Counter[tuple[str, int]]:
    """How often each record is there, by delta-rs."""
    return Counter((row["table"], row["offset"]) for row in rows(path))


@dataclass
class Feed:
    """A source of one topic, with a backup, as Dagster runs it."""

    broker: Broker
    platform: Platform
    root: Path
    topic: str = ""
    declared: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic = self.broker.topic()
        self.store = BackupStore(kind="local", bucket=str(self.root / "bucket"))
        open_store(self.store).create_bucket()
        table = {"name": "t", "topic": self.topic, "envelope": "json", "keys": ["id"], "columns": {"id": "integer not null"}}
        table |= self.declared
        self.source = TopicSource.model_validate(
            {"source": "feeds", "kind": "topics", "cluster": "lake", "tables": [table], "backup": {"store": self.store}}
        )
        parts = dg.Definitions(resources={"platform": self.platform}, executor=dg.in_process_executor)
        self.defs = dg.Definitions.merge(build_source_defs(self.source), parts)
        self.instance = dg.DagsterInstance.ephemeral()

    def send(self, *ids: int) -> None:
        self.produce(*[(number, {"id": number}) for number in ids])

    def produce(self, *rows: tuple[int, Mapping[str, object] | None]) -> None:
        """Of each key its row; None: it is gone."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for number, row in rows:
            producer.produce(self.topic, None if row is None else json.dumps(row).encode(), json.dumps({"id": number}).encode())
        producer.flush(30)

    def run(self, *chosen: dg.AssetSelection) -> dict[str, bool]:
        """One run; what its checks say."""
        job = dg.define_asset_job("chosen", selection=chosen[0])
        defs = dg.Definitions.merge(self.defs, dg.Definitions(jobs=[job]))
        result = defs.resolve_job_def("chosen").execute_in_process(instance=self.instance)
        return {e.check_name: e.passed for e in result.get_asset_check_evaluations()}

    def asset(self, layer: str) -> dg.AssetSelection:
        return dg.AssetSelection.assets(dg.AssetKey(names.asset_key(layer, self.source, self.source.tables[0]))).without_checks()

    def parity(self) -> dg.AssetSelection:
        return dg.AssetSelection.checks(RECORD_PARITY.key(self.source, self.source.tables[0]))

    @property
    def bronze(self) -> str:
        return names.bronze_path(self.platform.lake, self.source)
