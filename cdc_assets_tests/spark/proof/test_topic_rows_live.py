"""A source of topics compared in two steps with its own topic, on a real broker and a real Spark, while it is written."""

from __future__ import annotations

import json
import random
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from cdc_assets.capture.source_columns import catalogue_table
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.proof.healing import heal
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.topics import Broker
from cdc_assets_tests.support.live.writers import at_work
from cdc_assets_tests.support.oracles.damage import PLANTED, plant
from spark.bronze import append_job as bronze
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

COLUMNS = {
    **{"id": "integer not null", "amount": "numeric(12,2)", "note": "text", "at": "timestamp without time zone"},
    **{"day": "date", "ratio": "double precision", "open": "boolean"},
}
ROWS = 300


class Feed:
    """Messages as Qlik Replicate writes them: a load, then changes with rising sequences."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.producer, self.topic, self.sequence = Producer({"bootstrap.servers": bootstrap}), topic, 0
        self.lock = threading.Lock()

    def send(self, operation: str, data: Any, before: Any = None) -> None:
        with self.lock:
            self.sequence += 1
            place = "" if operation == "REFRESH" else f"20260101{self.sequence:027d}"
            headers = {"operation": operation, "changeSequence": place, "timestamp": "2026-01-01T00:00:00.000"}
            message = {"data": data, "beforeData": before, "headers": headers}
            value = {"magic": "atMSG", "type": "DT", "message": message}
            self.producer.produce(self.topic, json.dumps(value).encode(), on_delivery=lambda *_: None)
            self.producer.poll(0)


def row(number: int, note: str | None = None) -> dict[str, Any]:
    return {
        **{"id": number, "amount": f"{number / 7:.2f}", "note": note or f"note {number} ü", "open": number % 2 == 0},
        **{"at": f"2026-01-01T00:00:{number % 60:02d}.5", "day": "2024-02-29", "ratio": number / 3},
    }


class Ground:
    """One topic on the lake's own cluster, its bronze and silver."""

    def __init__(self, session: SparkSession, kafka: str, remote: str, root: Path) -> None:
        self.session, self.kafka, self.broker = session, kafka, Broker(kafka)
        self.topic = self.broker.topic()
        table = {"name": "t", "topic": self.topic, "envelope": "attunity-json", "keys": ["id"], "columns": COLUMNS}
        self.source = TopicSource.model_validate({"source": "feeds", "kind": "topics", "cluster": "lake", "tables": [table]})
        self.platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(root / "lake"))
        self.feed, self.table = Feed(kafka, self.topic), self.source.tables[0]

    @property
    def silver(self) -> str:
        return names.silver_path(self.platform.lake, self.source, self.table)

    def advance(self) -> None:
        self.feed.producer.flush(30)
        state = self.platform.lake_kafka().states([self.topic])[self.topic]
        form = self.source.record_form(self.table)
        ranges = TopicRange("t", self.topic, state.topic_id, 0, dict(state.ranges), **form)
        path = names.bronze_path(self.platform.lake, self.source)
        bronze.run(self.session, BronzeSpec(path, self.kafka, (ranges,), uuid.uuid4().hex))
        silver.run(self.session, silver_spec(self.platform.lake, self.source, self.table, catalogue_table(self.table)))

    def compare(self) -> TableResult:
        return compare_rows(Chain(self.platform, self.source), [self.table], ComparisonRequest(timeout=180))["t"]


@pytest.fixture(scope="module")
def ground(session: SparkSession, kafka: str, remote: str, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    made = Ground(session, kafka, remote, tmp_path_factory.mktemp("topicrows"))
    for number in range(ROWS):
        made.feed.send("REFRESH", row(number))
    made.advance()
    return made


@pytest.mark.spark
def test_equal_while_the_topic_is_written(ground: Ground) -> None:
    def write(seed: int, stop: threading.Event) -> None:
        dice = random.Random(seed)
        while not stop.wait(0.01):
            number = 120 + dice.randrange(seed % 2, ROWS - 120, 2)
            if dice.random() < 0.2:
                ground.feed.send("DELETE", None, row(number))
            else:
                ground.feed.send("UPDATE", row(number, f"change {ground.feed.sequence}"), row(number))

    with at_work(write):
        found = ground.compare()
    assert (found.verdict, found.method) == ("equal", "two-step"), found.sentence()
    ground.advance()
    found = ground.compare()
    assert (found.verdict, found.suspects, found.source_rows) == ("equal", 0, found.silver_rows), found.sentence()


@pytest.mark.spark
def test_every_damage_is_confirmed_and_no_other(ground: Ground) -> None:
    ground.feed.send("UPDATE", {**row(104), "amount": None})
    for number in (5, 6):
        ground.feed.send("DELETE", None, row(number))
    ground.advance()
    plant(ground.silver)
    found = ground.compare()
    assert {d.key: (d.kind, d.where) for d in found.differences} == {key: (kind, "silver") for key, kind in PLANTED.items()}
    assert heal(Chain(ground.platform, ground.source), ground.table, found) == (len(PLANTED), 0)
    assert ground.compare().verdict == "equal"
    lost = DeltaTable(names.bronze_path(ground.platform.lake, ground.source))
    lost.delete("offset = 7")
    DeltaTable(ground.silver).delete("id = 7")
    found = ground.compare()
    assert [(d.key, d.kind, d.where) for d in found.differences] == [("7;", "missing", "bronze or before it")]
    with pytest.raises(DatabaseError, match="nobody can be asked to send them again"):
        heal(Chain(ground.platform, ground.source), ground.table, found)


@pytest.mark.spark
def test_rows_whose_records_are_gone_are_named_and_not_judged(ground: Ground) -> None:
    """Retention has removed the load: what the topic still tells of is compared, and a damage among it is found."""
    ground.feed.send("UPDATE", row(7))
    ground.advance()
    ground.broker.delete_before(ground.topic, ROWS // 2)
    found = ground.compare()
    assert found.verdict == "equal", found.sentence()
    assert any(name.endswith((" row", " rows")) for name in found.not_compared)
    ground.session.sql(f"DELETE FROM delta.`{ground.silver}` WHERE id IN (1, {ROWS - 1})")
    found = ground.compare()
    assert {d.key for d in found.differences} == {f"{ROWS - 1};"}
