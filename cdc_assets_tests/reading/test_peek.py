"""`cdc peek` on a real broker: which records it finds, how they are decoded, and what it hides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.kafka import KafkaCluster

pytestmark = pytest.mark.service
NOON = 1_764_072_000_000
"""2025-11-25T12:00:00Z."""
SHOP = """\
source: shop
kind: topics
cluster: lake
tables:
  - name: orders
    topic: shop.orders
    envelope: debezium-json
    connector: postgresql
    keys: [id]
    columns: {id: integer not null, customer: text, total: "numeric(10,2)"}
    sensitive: [customer]
    renamed: {buyer: customer}
  - {name: plain, topic: shop.plain, envelope: json, keys: [id], columns: {id: integer}}
"""


@dataclass
class Topics:
    """The broker, and what produces to it."""

    bootstrap: str

    def put(self, topic: str, key: Any, value: Any, *, partition: int = 0, at: int = NOON) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap})
        raw = [part if part is None or isinstance(part, bytes) else json.dumps(part).encode() for part in (key, value)]
        producer.produce(topic, key=raw[0], value=raw[1], partition=partition, timestamp=at, headers=[("h", b"ann@example.org")])
        assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def topics(kafka: str) -> Topics:
    """Five orders on two partitions, a minute apart; the customer of each is its number modulo two."""
    cluster, made = KafkaCluster(kafka), Topics(kafka)
    for name, partitions in {"shop.orders": 2, "shop.plain": 1, "stray": 1}.items():
        cluster.ensure_topic(name, partitions=partitions, retention_ms=-1, replication_factor=1)
    for n in range(5):
        row = {"id": n, "customer": f"c{n % 2}@example.org", "total": "1.50"}
        made.put("shop.orders", {"id": n}, {"op": "c", "before": None, "after": row}, partition=n % 2, at=NOON + n * 60_000)
    return made


@pytest.fixture
def places(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "shop.yaml").write_text(SHOP)
    found = {"CDC_HOME": str(tmp_path / "home"), "CDC_SOURCES": str(tmp_path / "sources"), "CDC_LAKE": str(tmp_path / "lake")}
    found |= {"CDC_CORE_BOOTSTRAP": topics.bootstrap, "CDC_LAKE_BOOTSTRAP": topics.bootstrap}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def ask(*words: str) -> Result:
    return CliRunner().invoke(app, ["peek", *words])


def records(*words: str) -> list[dict[str, Any]]:
    done = ask(*words, "-o", "json")
    assert done.exit_code == 0, (done.output, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids(*words: str) -> list[int]:
    return [record["key"]["id"] for record in records("shop.orders", *words)]


def test_markers_of_transactions_are_no_records(topics: Topics, places: dict[str, str]) -> None:
    """The newest offsets are taken by them: exactly-once connectors end each batch so."""
    from confluent_kafka import Producer

    KafkaCluster(topics.bootstrap).ensure_topic("marked", partitions=1, retention_ms=-1, replication_factor=1)
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": "peek"})
    producer.init_transactions(60)
    for n in range(12):
        producer.begin_transaction()
        if n < 2:
            producer.produce("marked", key=b"%d" % n, value=b"{}")
            producer.commit_transaction(60)
        else:
            producer.produce("marked", key=b"gone", value=b"{}")
            producer.flush(30)
            producer.abort_transaction(60)
    assert [record["key"] for record in records("marked", "--limit", "1")] == [1]
    assert [record["key"] for record in records("marked", "--limit", "2")] == [0, 1]
    assert [record["key"] for record in records("marked")] == [0, 1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["--limit", "2"], [3, 4]),
        (["--partition", "1"], [1, 3]),
        (["--at", "1"], [2, 3, 4]),
        (["--at", "1", "--limit", "1"], [2]),
        (["--at", "2025-11-25T12:02"], [2, 3, 4]),
        (["--at", "2025-11-25T13:02+01:00", "--limit", "2"], [2, 3]),
        (["--at", "1h"], []),
        (["--at", "99"], []),
        (["--key", "3"], [3]),
        (["--key", "id=4"], [4]),
        (["--key", '{"id": 2}'], [2]),
        (["--key", "7"], []),
    ],
)
def test_which_records_are_found(places: dict[str, str], words: list[str], found: list[int]) -> None:
    assert ids(*words) == found


def test_a_record_is_decoded_and_its_sensitive_values_are_hashes(places: dict[str, str]) -> None:
    first, second, third, *_ = records("shop.orders")
    assert (first["topic"], first["cluster"], first["partition"], first["offset"]) == ("shop.orders", "lake", 0, 0)
    assert (first["timestamp"], first["op"]) == ("2025-11-25T12:00:00.000+00:00", "c")
    assert first["value"]["after"]["total"] == "1.50"
    hashes = [record["value"]["after"]["customer"] for record in (first, second, third)]
    assert all(each.startswith("hash:") for each in hashes)
    assert hashes[0] == hashes[2] != hashes[1]
    done = ask("shop.orders")
    assert "@example.org" not in done.output
    assert "shown as hashes: buyer, customer" in done.stderr
    assert done.stdout.splitlines()[0].startswith(
        '0:0  2025-11-25T12:00:00.000+00:00  c  {"id": 0}  {"id": 0, "customer": "hash:'
    )
    shown = records("shop.orders", "--show-sensitive", "--limit", "1")
    assert shown[0]["value"]["after"]["customer"] == "c0@example.org"
    assert shown[0]["headers"] == {"h": "ann@example.org"}


def test_names_before_a_rename_and_unreadable_records_are_hidden(places: dict[str, str], topics: Topics) -> None:
    topics.put(
        "shop.orders",
        {"id": 9},
        {"op": "u", "before": {"id": 9, "buyer": "ann@example.org"}, "after": None},
        at=NOON + 9 * 60_000,
    )
    topics.put("shop.orders", b"\xff", b"no JSON: ann@example.org \xff", at=NOON + 9 * 60_000)
    topics.put("shop.orders", {"id": 9}, None, at=NOON + 9 * 60_000)
    at = ("--at", "2025-11-25T12:09")
    renamed, unreadable, tombstone = records("shop.orders", *at)
    assert renamed["value"]["before"]["buyer"].startswith("hash:")
    assert unreadable["key"].startswith("hash:")
    assert unreadable["value"].startswith("hash:")
    assert (tombstone["op"], tombstone["value"], tombstone["key"]) == ("tombstone", None, {"id": 9})
    assert "ann@" not in ask("shop.orders", *at).output
    assert records("shop.orders", *at, "--show-sensitive")[1]["value"] == "no JSON: ann@example.org \\xff"


def test_a_topic_without_a_table_is_shown_as_it_is(places: dict[str, str], topics: Topics) -> None:
    topics.put("stray", b"k", {"schema": {"type": "x"}, "payload": {"n": 1.50}})
    topics.put("stray", None, b"\x00\x01text")
    first, second = records("stray")
    assert (first["cluster"], first["key"], first["value"]) == ("core", "k", {"n": "1.5"})
    assert second["value"] == "\x00\x01text"
    assert records("stray", "--cluster", "lake")[0]["cluster"] == "lake"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["shop.ordres"], "topic shop.ordres is not on core or lake; near: shop.orders"),
        (["shop.orders", "--partition", "7"], "has no partition 7; it has 0, 1"),
        (["shop.orders", "--at", "noon"], "--at 'noon' is no offset"),
    ],
)
def test_what_is_wrong_is_told(places: dict[str, str], words: list[str], told: str) -> None:
    assert told in str(ask(*words).exception)


def test_what_comes_is_followed(places: dict[str, str], topics: Topics) -> None:
    topics.put("shop.plain", {"id": 1}, {"id": 1})
    command = [sys.executable, "-m", "cdc_assets.cli", "peek", "shop.plain", "-f", "-o", "json"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, env={**os.environ, **places}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["key"] == {"id": 1}
            topics.put("shop.plain", {"id": 2}, {"id": 2}, at=int(time.time() * 1000))
            assert json.loads(process.stdout.readline())["key"] == {"id": 2}
        finally:
            process.terminate()
