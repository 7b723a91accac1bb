"""Bronze in events/s and silver in seconds per small cycle, as ratios to a plain read in the same run.

    python -m benchmarks.spark_jobs --remote sc://HOST:PORT --bootstrap HOST:PORT [--login FILE] [--events 200000]

Machines and neighbours differ; ratios travel. Fills a topic of its own with Debezium-shaped events, deletes it at the end.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.bench.events import event_text, key_text
from spark.bronze import append_job as bronze
from spark.events import kafka_source as kafka_ranges
from spark.events.kafka_login import librdkafka, read_login
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, Column, SilverSpec, TopicRange
from spark.table.spark_session import connect

COLUMNS = (
    Column("aid", "integer", False),
    Column("bid", "integer"),
    Column("abalance", "integer"),
    Column("filler", "character(84)"),
)


def parse_arguments(told: str | None, *, cycles: int) -> argparse.Namespace:
    """Where Spark and Kafka are, and how much is measured."""
    parser = argparse.ArgumentParser(description=told)
    parser.add_argument("--remote", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--login", default="", help="a client.properties; the stack's is $CDC_LAKE_LOGIN")
    parser.add_argument("--events", type=int, default=200_000, help="events of the first load")
    parser.add_argument("--cycles", type=int, default=cycles)
    return parser.parse_args()


def client_settings(chosen: argparse.Namespace) -> dict[str, Any]:
    """What librdkafka is told of the cluster."""
    login = librdkafka(read_login(chosen.login)) if chosen.login else {}
    return {"bootstrap.servers": chosen.bootstrap, **login}


def main() -> None:
    chosen = parse_arguments(__doc__, cycles=5)
    topic = f"bench.public.accounts{uuid.uuid4().hex[:6]}"
    admin = AdminClient(client_settings(chosen))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    lake = Path(tempfile.mkdtemp(prefix="cdc-bench-"))
    try:
        measure(chosen, topic, admin, lake)
    finally:
        shutil.rmtree(lake)
        admin.delete_topics([topic])[topic].result(30)


def measure(chosen: argparse.Namespace, topic: str, admin: AdminClient, lake: Path) -> None:
    session = connect(chosen.remote)
    feed = Feed(client_settings(chosen), topic)
    path = str(lake / "bronze")
    spec = SilverSpec("bench", "accounts", path, str(lake / "silver"), COLUMNS, ("aid",))

    def append(start: int) -> int:
        place = TopicPartition(topic, 0)
        end = admin.list_offsets({place: OffsetSpec.latest()})[place].result(30).offset
        topics = (TopicRange("accounts", topic, "id", 0, {0: (start, end)}),)
        asked = BronzeSpec(path, chosen.bootstrap, topics, uuid.uuid4().hex, login=chosen.login)
        took = timed(lambda: bronze.append_by_spark(session, asked))
        plain = timed(lambda: kafka_ranges.read(session, asked, asked.topics).write.format("noop").mode("overwrite").save())
        show(f"bronze {end - start:>7} events", took, plain, end - start)
        return end

    feed.send("r", range(chosen.events))
    at = append(0)
    took = timed(lambda: silver.run(session, spec))
    plain = timed(lambda: session.read.format("delta").load(path).write.format("noop").mode("overwrite").save())
    show(f"silver first load {chosen.events}", took, plain, chosen.events)
    for size in (1_000, 10_000):
        cycles = []
        for _ in range(chosen.cycles):
            feed.send("u", random.sample(range(chosen.events), size))
            at = append(at)
            cycles.append(timed(lambda: silver.run(session, spec)))
        plain = timed(lambda: session.read.format("delta").load(spec.path).write.format("noop").mode("overwrite").save())
        show(f"silver cycle of {size:>6} (median)", statistics.median(cycles), plain, size)
    session.stop()


class Feed:
    """Events as Debezium writes them, positions rising."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self.producer = Producer({**settings, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000})
        self.topic = topic
        self.sent = 0

    def send(self, op: str, keys: range | list[int]) -> None:
        for key, value in events(op, keys, self.sent):
            self.producer.produce(self.topic, value, key)
            self.producer.poll(0)
        self.sent += len(keys)
        self.producer.flush()


def events(op: str, keys: range | list[int], number: int) -> Iterator[tuple[str, str]]:
    """Key and value of an event per key, `number` of them sent before."""
    for sent, aid in enumerate(keys, number):
        yield key_text(aid), event_text(op, aid, random.randrange(10_000), sent)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(what: str, seconds: float, plain: float, events: int) -> None:
    rate = f"{events / seconds:>9.0f} events/s"
    print(f"{what:<34} {seconds:7.2f} s {rate}   plain read {plain:6.2f} s   ratio {seconds / plain:6.1f}", flush=True)


if __name__ == "__main__":
    main()
