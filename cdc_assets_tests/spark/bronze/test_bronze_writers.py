"""Two writers of one bronze table, and copies that an earlier version's writers left: whoever meets them takes them out."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from confluent_kafka import Producer

from cdc_assets import names
from cdc_assets.backup import verify_backup
from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.checks.volumetry import check_key
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.topic_source import TopicSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import open_store
from cdc_assets.resources.platform import Platform
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.copies import plant_copies
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.topics import Broker
from spark.delta.session import connect
from spark.specs import JobResult, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


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


def test_two_writers_append_a_range_once(remote: str, session: SparkSession, tmp_path: Path) -> None:
    """Both were appended. And writers of different tables do not read Kafka again for each other."""
    lake = Meeting(session, tmp_path)
    for table in ("t", "u"):
        lake.put(table, *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(6)])
    lake.met.add(threading.get_ident())
    lake.append(lake.ranges("t", {0: 2}), lake.ranges("u", {0: 2}))

    told = lake.at_once((remote, lake.ranges("t", {0: 4})), (remote, lake.ranges("t", {0: 5})))
    assert {n for _, n in offsets(lake.bronze_path)} >= {2, 3}
    assert set(offsets(lake.bronze_path).values()) == {1}
    # Whoever came second begins anew: it reads what the first has left, if anything.
    assert sum(result.rows_inserted for result in told) == len(offsets(lake.bronze_path)) - 4
    lake.at_once((remote, lake.ranges("t", {0: 6})), (remote, lake.ranges("u", {0: 6})))
    assert lake.reads == {"t": 1, "u": 1}
    assert offsets(lake.bronze_path) == Counter((table, n) for table in "tu" for n in range(6))
    committed = bronze_committed(lake.bronze_path)
    assert committed is not None
    assert (committed.overlaps, [state.records for state in committed.topics.values()]) == ((), [6, 6])


def test_after_a_restore_the_log_goes_on(session: SparkSession, tmp_path: Path) -> None:
    """Delta keeps the numbers of transactions through a RESTORE, and leaves out a write with a number that it has seen."""
    lake = Lake(session, tmp_path)
    lake.put("t", *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(6)])
    for end in (2, 3, 4):
        lake.append(lake.ranges("t", {0: end}))
    session.sql(f"RESTORE delta.`{lake.bronze_path}` TO VERSION AS OF 0").collect()
    lake.append(lake.ranges("t", {0: 5}))
    lake.append(lake.ranges("t", {0: 6}))
    assert offsets(lake.bronze_path) == Counter(("t", n) for n in range(6))


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
        return dg.AssetSelection.checks(check_key("bronze", self.source, self.source.tables[0]))

    @property
    def bronze(self) -> str:
        return names.bronze_path(self.platform.lake, self.source)


def test_whoever_meets_copies_takes_them_out(remote: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without news they stayed: record_parity was red and silver blocked, and the backup ended: "bronze has offset 0 twice"."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    feed = Feed(Broker(kafka), platform, tmp_path)
    doors: list[tuple[str, Callable[[], Any]]] = [
        ("silver", lambda: feed.run(feed.asset("silver"))),
        ("check", lambda: feed.run(feed.parity())),
        ("backup", lambda: feed.run(feed.asset("backup"))),
    ]
    for number, (name, door) in enumerate(doors, 1):
        feed.send(1, 2, number)
        feed.run(feed.asset("bronze"))
        assert plant_copies(feed.bronze) == 3
        told = door()
        assert told in ({}, {"record_parity": True}), name
        assert offsets(feed.bronze) == Counter(("t", n) for n in range(3 * number)), name
    table = {"source": "feeds", "table": "t", "bronze_path": feed.bronze}
    report = verify_backup(open_store(feed.store), **table, deep=True)
    assert (report.differences, report.records, report.behind) == ((), 9, 0)
    assert feed.run(feed.parity()) == {"record_parity": True}
