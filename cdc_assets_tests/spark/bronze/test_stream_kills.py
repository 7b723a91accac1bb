"""`cdc stream` and the assets take turns under writes, and each is killed in the midst of bronze and of silver.

What was sent is the oracle, and delta-rs reads what is there: each record is in bronze once, and silver has the last row of each
key. One table has a history, which holds each version once. A table whose topic is missing fails all the time, and stops none
of the others.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.bench.events import SCHEMA, event_text, key_text
from cdc_assets_tests.support.lake.topics import Broker

pytestmark = [pytest.mark.spark, pytest.mark.all]
ROOT = Path(__file__).parents[3]
KEYS, SECONDS = 50, 120.0
# As Dagster's runs do, one after the other: bronze, then silver.
RUNS = """
import dagster as dg
from cdc_assets.registry import settings
from cdc_assets.defs.lake_assets import build_bronze_assets
from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.registry.loader import load_sources
from cdc_assets.defs.platform_resource import PlatformResource
(source,) = load_sources(settings.sources_folder())
source = source.model_copy(update={"tables": source.tables[:-1]})
while True:
    dg.materialize([build_bronze_assets(source), build_silver_assets(source)], resources={"platform": PlatformResource()})
"""


@dataclass
class Written:
    """Three topics that a thread writes to all the time, and the balance that each key has at last."""

    bootstrap: str
    topics: list[str]
    balances: dict[str, dict[int, int]] = field(default_factory=dict)
    versions: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """By topic, key and balance: how often the row became that."""
    sent: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        producer, chance = Producer({"bootstrap.servers": self.bootstrap}), random.Random(7)
        while not self.over.is_set():
            for topic in self.topics:
                for _ in range(chance.randrange(1, 10)):
                    self._send(producer, chance, topic)
            producer.flush(30)
            time.sleep(0.05)

    def _send(self, producer: Producer, chance: random.Random, topic: str) -> None:
        rows, aid = self.balances.setdefault(topic, {}), chance.randrange(KEYS)
        op = "c" if aid not in rows else chance.choice("uuud")
        balance = chance.randrange(10_000)
        if op == "d":
            del rows[aid]
        else:
            rows[aid] = balance
            self.versions[topic, aid, balance] += 1
        producer.produce(topic, event_text(op, aid, balance, self.sent[topic]), key_text(aid))
        self.sent[topic] += 1


@dataclass
class StreamedLake:
    """The registry and the lake of one source, for processes of their own."""

    root: Path
    topics: list[str]
    environment: dict[str, str]

    @property
    def bronze(self) -> Path:
        return self.root / "lake" / "bronze" / "feeds"

    def silver(self, number: int) -> Path:
        return self.root / "lake" / "silver" / "feeds" / f"t{number}"

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def stream(self, *options: str) -> subprocess.Popen[str]:
        return self.start("-m", "cdc_assets.cli", "stream", "feeds", "-o", "json", "--every", "1", *options)

    def runs(self) -> subprocess.Popen[str]:
        return self.start("-c", RUNS)


@pytest.fixture
def written(kafka: str) -> Iterator[Written]:
    broker = Broker(kafka)
    found = Written(kafka, [broker.topic() for _ in range(3)])
    thread = threading.Thread(target=found.write)
    thread.start()
    yield found
    found.over.set()
    thread.join(60)


@pytest.fixture
def house(written: Written, remote: str, tmp_path: Path) -> StreamedLake:
    form = {"envelope": "debezium-json", "connector": "postgresql", "columns": SCHEMA, "keys": ["aid"]}
    tables = [{"name": f"t{number}", "topic": topic, **form} for number, topic in enumerate(written.topics)]
    tables[0]["history"] = "scd2"
    tables.append({"name": "ghost", "topic": "core.nowhere.t", **form})
    (tmp_path / "sources").mkdir()
    declared = {"source": "feeds", "kind": "topics", "cluster": "lake", "batching": {"max_records": 300}, "tables": tables}
    (tmp_path / "sources" / "feeds.yaml").write_text(yaml.safe_dump(declared))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_"))}
    own = {
        "CDC_HOME": str(tmp_path / "home"),
        "CDC_SOURCES": str(tmp_path / "sources"),
        "CDC_LAKE_BOOTSTRAP": written.bootstrap,
        "CDC_SPARK_REMOTE": remote,
        "CDC_LAKE": str(tmp_path / "lake"),
        "PYTHONPATH": str(ROOT),
    }
    return StreamedLake(tmp_path, written.topics, {**kept, **own})


def files_of(table: Path) -> set[str]:
    return {entry.name for entry in os.scandir(table) if entry.name.endswith(".parquet")} if table.is_dir() else set()


def commits_of(table: Path) -> int:
    log = table / "_delta_log"
    return len(list(log.glob("*.json"))) if log.is_dir() else 0


def await_change(process: subprocess.Popen[str], table: Path, *, commits: int) -> None:
    """Until so many commits have come, and then until a data file is there whose commit is not: the midst of a write."""
    wanted, until = commits_of(table) + commits, time.monotonic() + SECONDS
    while commits_of(table) < wanted:
        assert process.poll() is None, process.communicate()[0][-3000:]
        assert time.monotonic() < until, f"no commit in {table}"
        time.sleep(0.01)
    before = files_of(table)
    while files_of(table) == before:
        assert time.monotonic() < until, f"no write in {table}"
        time.sleep(0.0005)


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_nothing_is_lost_or_repeated_whoever_is_killed_where(house: StreamedLake, written: Written) -> None:
    for starts in (house.stream, house.runs):
        for table in (house.bronze, house.silver(1)):
            with killed(starts()) as process:
                await_change(process, table, commits=1)
    # Both at once, and the stream is asked to end; the assets are cut off wherever they are.
    with killed(house.runs()) as runs, killed(house.stream()) as stream:
        for process in (runs, stream):
            await_change(process, house.silver(2), commits=2)
        stream.send_signal(signal.SIGTERM)
        told, _ = stream.communicate(timeout=SECONDS)
        assert stream.returncode in (0, 1), told[-3000:]
    written.over.set()
    last = house.stream("--until-caught-up")
    # A history is a Spark job for each batch of it.
    told, _ = last.communicate(timeout=3 * SECONDS)
    # The table without a topic fails for good, and is named; the others are whole.
    assert last.returncode == 1, told[-3000:]
    assert "bronze/feeds/ghost: topic core.nowhere.t does not exist" in told
    figures = [json.loads(line) for line in told.splitlines() if line.startswith("{")][-1]
    assert (figures["lag_records"], list(figures["failing"])) == (0, ["bronze/ghost"])

    bronze = DeltaTable(str(house.bronze)).to_pyarrow_table(columns=["topic", "partition", "offset"]).to_pylist()
    found = Counter((row["topic"], row["partition"], row["offset"]) for row in bronze)
    assert found == Counter((topic, 0, offset) for topic in house.topics for offset in range(written.sent[topic]))
    for number, topic in enumerate(house.topics):
        rows = DeltaTable(str(house.silver(number))).to_pyarrow_table(columns=["aid", "abalance"]).to_pylist()
        assert Counter((row["aid"], row["abalance"]) for row in rows) == Counter(written.balances[topic].items())
    history = DeltaTable(f"{house.silver(0)}__history").to_pyarrow_table(columns=["aid", "abalance", "_is_current"]).to_pylist()
    topic = house.topics[0]
    assert {row["aid"]: row["abalance"] for row in history if row["_is_current"]} == written.balances[topic]
    wanted = Counter({(aid, balance): n for (of, aid, balance), n in written.versions.items() if of == topic})
    assert Counter((row["aid"], row["abalance"]) for row in history) == wanted
