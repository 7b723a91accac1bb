"""A record that is too large costs its row, by partition and offset: Spark's server lives, and what lies around it is folded."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.lake.topics import PATIENCE, Broker
from spark.bronze import append_job as bronze
from spark.events.large_records import MOST_BYTES
from spark.specs import BronzeSpec, Column, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20
COLUMNS = (Column("id", "integer", False), Column("v", "text"))


def change(number: int, v: str) -> str:
    source = {
        "sequence": json.dumps(["900", str(1000 + number)]),
        "lsn": 1000 + number,
        "txId": number,
        "ts_ms": 1_700_000_000_000,
    }
    return json.dumps({"before": None, "after": {"id": number, "v": v}, "source": source, "op": "c"})


def send(
    broker: Broker, topic: str, records: dict[int, str], *, codec: str = "zstd", partition: int = 0, at_once: bool = False
) -> None:
    """At once: in one batch."""
    own = {"compression.type": codec, "message.max.bytes": 1_000_000_000, "linger.ms": 2000 if at_once else 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.kbytes": 2_000_000, **own})
    for number, value in records.items():
        producer.produce(topic, value.encode(), json.dumps({"id": number}).encode(), partition)
        if not at_once:
            producer.flush(PATIENCE)
    assert producer.flush(PATIENCE) == 0


def topic_range(broker: Broker, topic: str, form: tuple[str, str]) -> TopicRange:
    ends = {p: broker.last_stable(topic, p) for p in (0, 1)}
    return TopicRange("t", topic, "id-1", 0, {p: (0, end) for p, end in ends.items()}, *form)


def silver_spec(path: str, folder: Path, form: tuple[str, str]) -> SilverSpec:
    foreign = form[0] == "json"
    return SilverSpec(
        "s", "t", path, str(folder / "silver"), COLUMNS, ("id",), envelope=form[0], connector=form[1], foreign=foreign
    )


@pytest.mark.parametrize("form", [("debezium-json", "postgresql"), ("json", "topic")], ids=["captured", "foreign"])
def test_250_mb_in_some_kb(session: SparkSession, kafka: str, tmp_path: Path, form: tuple[str, str]) -> None:
    from spark.silver import fold_job as silver

    def record(number: int, v: str) -> str:
        return change(number, v) if form[0] != "json" else json.dumps({"id": number, "v": v})

    broker = Broker(kafka)
    topic, other = broker.topic(partitions=2), broker.topic(partitions=2)
    bomb = record(3, "a" * 250_000_000)
    send(broker, topic, {1: record(1, "one"), 2: record(2, "two"), 3: bomb, 4: record(4, "four")})
    # In one batch with others, and below the bound; a text may have 20 million characters (Jackson).
    send(broker, topic, {5: record(5, "five"), 6: record(6, "b" * 40 * MIB), 7: record(7, "seven")}, at_once=True)
    send(broker, topic, {8: record(8, "c" * 18 * MIB)}, partition=1)
    send(broker, other, {1: record(1, "another table")})
    path = str(tmp_path / "bronze")
    asked = (topic_range(broker, topic, form), TopicRange("o", other, "id-2", 0, {0: (0, 1)}, *form))
    done = bronze.run(session, BronzeSpec(path, kafka, asked, uuid.uuid4().hex))
    assert done.rows_inserted == 9
    held = {(row["table"], row["partition"], row["offset"]): row for row in rows(path)}
    assert {(table, p, offset): len(row["value"]) > MIB for (table, p, offset), row in held.items()} == {
        **{("t", 0, offset): False for offset in range(7)},
        **{("t", 1, 0): True, ("o", 0, 0): False},
    }
    assert json.loads(held["t", 0, 2]["key"]) == {"id": 3}
    spec = silver_spec(path, tmp_path, form)
    silver.run(session, spec)
    assert sorted(row["id"] for row in values(spec.path)) == [1, 2, 4, 5, 7, 8]
    aside = {row["offset"]: row for row in rows(spec.quarantine)}
    assert {(row["topic"], row["partition"], row["error_class"]) for row in aside.values()} == {(topic, 0, "large")}
    digest = hashlib.sha256(bomb.encode()).hexdigest()
    size = len(bomb) + len('{"id": 3}')
    assert (
        aside[2]["message"]
        == f"the record is too large: {size} bytes, above {MOST_BYTES // MIB} MiB; sha256 of its value {digest}"
    )
    assert {offset: json.loads(row["row_key"]) for offset, row in aside.items()} == {2: {"id": 3}, 5: {"id": 6}}


@pytest.mark.parametrize(("codec", "size"), [("zstd", 600_000_000), pytest.param("gzip", 999_000_000, marks=pytest.mark.all)])
def test_what_nobody_unpacks(session: SparkSession, kafka: str, tmp_path: Path, codec: str, size: int) -> None:
    broker = Broker(kafka)
    topic = broker.topic(partitions=2)
    send(broker, topic, {1: change(1, "one")})
    send(broker, topic, {2: change(2, "a" * size)}, codec=codec)
    send(broker, topic, {3: change(3, "three")})
    path = str(tmp_path / "bronze")
    form = ("debezium-json", "postgresql")
    bronze.run(session, BronzeSpec(path, kafka, (topic_range(broker, topic, form),), uuid.uuid4().hex))
    told = {row["offset"]: row["value"].decode() for row in rows(path)}
    assert [told[0], told[2]] == [change(1, "one"), change(3, "three")]
    assert told[1] == "the record is too large: its batch does not unpack into 512 MiB, so size and digest are not known"
