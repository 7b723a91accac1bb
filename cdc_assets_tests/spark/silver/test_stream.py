"""The stream by spark-submit on a real Kafka: each record once, whatever ends it, and whoever writes in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.lake.standalone import FIRST_COMPILER
from cdc_assets_tests.support.lake.topics import Broker
from spark.bronze import append_job as bronze
from spark.specs import BronzeSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

ROOT = Path(__file__).parents[3]
LINES = re.findall(r"^\./cdc .*$", (ROOT / "docs" / "how-to" / "streaming.md").read_text(), re.MULTILINE)
SPEC, NOW, ON_AND_ON = (line.replace("shop", "feeds").replace("5 seconds", "1 second") for line in LINES)
SOURCE = """\
source: feeds
kind: topics
cluster: lake
tables:
  - {{name: plain, topic: {plain}, envelope: json, keys: [id], history: scd2, columns: {{id: integer not null, v: text}}}}
  - name: events
    topic: {events}
    envelope: debezium-json
    connector: postgresql
    keys: [id]
    columns: {{id: integer not null, v: text}}
"""


@dataclass
class Feeds:
    """Two topics of known rows, and the commands that carry them."""

    kafka: str
    root: Path
    plain: str
    events: str
    rows: dict[int, str] = field(default_factory=dict)
    sent: int = 0

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    def send(self, *keys: int) -> None:
        """One record for each key, in both topics."""
        producer = Producer({"bootstrap.servers": self.kafka})
        for key in keys:
            row = {"id": key, "v": f"v{self.sent}"}
            found = event(self.sent, row)
            assert found.key
            assert found.value
            producer.produce(self.plain, json.dumps(row).encode(), json.dumps({"id": key}).encode())
            producer.produce(self.events, found.value.encode(), found.key.encode())
            self.rows[key] = row["v"]  # type: ignore[assignment]
            self.sent += 1
        assert producer.flush(60) == 0

    def start(self, line: str) -> subprocess.Popen[str]:
        own = {"CDC_HOME": self.root / "home", "CDC_SOURCES": self.root / "sources", "CDC_LAKE": self.lake}
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("CDC_", "DAGSTER_", "PYTHON", "SPARK_"))}
        kept |= {"CDC_LAKE_BOOTSTRAP": self.kafka, "JDK_JAVA_OPTIONS": FIRST_COMPILER}
        return subprocess.Popen(
            ["sh", "-c", line],
            cwd=self.root,
            env=kept | {name: str(value) for name, value in own.items()},
            stdout=subprocess.PIPE,
            stderr=(self.root / "stderr").open("w"),
            text=True,
            start_new_session=True,
        )

    def run(self, line: str) -> str:
        process = self.start(line)
        told, _ = process.communicate(timeout=400)
        assert process.returncode == 0, f"{line}\n{told[-2000:]}\n{(self.root / 'stderr').read_text()[-6000:]}"
        return told

    def total(self) -> int:
        """Rows that a run of `availableNow` has read."""
        result = json.loads(self.run(NOW).splitlines()[-1])
        assert result["job"] == "stream"
        return int(result["rows_read"])

    def check(self) -> None:
        """By delta-rs: each offset once in bronze, and both tables as they were sent."""
        held = Counter((row["topic"], row["offset"]) for row in rows(str(self.lake / "bronze" / "feeds")))
        assert held == Counter((topic, offset) for topic in (self.plain, self.events) for offset in range(self.sent))
        for table in ("plain", "events"):
            assert self.silver(table) == self.rows, table
        versions = rows(str(self.lake / "silver" / "feeds" / "plain__history"))
        assert {row["id"]: row["v"] for row in versions if row["_is_current"]} == self.rows
        assert len(versions) == self.sent

    def silver(self, table: str) -> dict[int, Any]:
        return {row["id"]: row["v"] for row in rows(str(self.lake / "silver" / "feeds" / table))}


def until(condition: Callable[[], bool], feeds: Feeds, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, (feeds.root / "stderr").read_text()[-6000:]
        assert time.monotonic() < deadline, (feeds.root / "stderr").read_text()[-6000:]
        time.sleep(0.1)


@pytest.fixture
def feeds(kafka: str, tmp_path: Path) -> Feeds:
    broker = Broker(kafka)
    found = Feeds(kafka, tmp_path, broker.topic(), broker.topic())
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "feeds.yaml").write_text(SOURCE.format(plain=found.plain, events=found.events))
    for name in ("cdc", "spark"):
        (tmp_path / name).symlink_to(ROOT / name)
    return found


def test_what_is_there_is_carried_once(feeds: Feeds) -> None:
    feeds.send(1, 2, 3)
    feeds.run(SPEC)
    assert feeds.total() == 6
    feeds.check()


def test_nothing_is_lost_or_carried_twice(feeds: Feeds, session: SparkSession) -> None:
    checkpoint = feeds.lake / "checkpoints" / "feeds"
    feeds.send(1, 2, 3)
    feeds.run(SPEC)
    assert feeds.total() == 6
    feeds.check()
    shutil.copytree(checkpoint, feeds.root / "old")

    process = feeds.start(ON_AND_ON)
    try:
        feeds.send(1, 4)
        until(lambda: feeds.silver("events") == feeds.rows and feeds.silver("plain") == feeds.rows, feeds, process)
        feeds.send(*range(1, 300))
    finally:
        # In the middle of what has just been sent, or before it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    shutil.rmtree(checkpoint)
    feeds.send(5)
    between = json.loads(feeds.run("./cdc spec bronze feeds plain")) | {"operation_id": "by-hand"}
    bronze.run(session, BronzeSpec.from_json(json.dumps(between)))
    feeds.send(6)
    assert feeds.total() > 0
    feeds.check()

    shutil.rmtree(checkpoint)
    shutil.copytree(feeds.root / "old", checkpoint)
    feeds.send(7)
    assert feeds.total() == 2
    feeds.check()
