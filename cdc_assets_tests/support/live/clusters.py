"""Two Kafka clusters with MirrorMaker 2 between them: the smallest real mirror."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from cdc_assets.clients.platform import Platform
from cdc_assets.registry.source_declaration import Source, TopicSource
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_source import LiveSource


@dataclass
class Clusters:
    """The two clusters, by the product's own platform."""

    home: Home
    platform: Platform
    admin: AdminClient
    producer: Producer

    def create(self, topic: str, **config: str) -> None:
        self.admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(60)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(60)
        until(lambda: topic not in self.platform.core_kafka("core").states([topic]))

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)
        until(lambda: len(self.platform.core_kafka("core").states([topic])[topic].ranges) == partitions)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        self.admin.delete_records([TopicPartition(topic, partition, before)])
        until(lambda: self.platform.core_kafka("core").states([topic])[topic].ranges[partition][0] == before)

    def send(self, topic: str, values: list[str], *, timestamp_ms: int = 0, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, value.encode(), key=value.encode(), partition=partition, timestamp=timestamp_ms)
        assert self.producer.flush(60) == 0

    def read(self, topic: str, *, group: str, records: int) -> None:
        """A consumer group of the core cluster that has read so many records."""
        consumer = self._consumer(self.platform.core_bootstrap, group)
        consumer.commit(offsets=[TopicPartition(topic, 0, records)], asynchronous=False)
        consumer.close()

    def place(self, topic: str, *, group: str) -> int:
        """Where the group would go on in the lake's cluster; negative where nothing is told."""
        consumer = self._consumer(self.platform.lake_bootstrap, group)
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
        consumer.close()
        return int(found.offset)

    @staticmethod
    def _consumer(bootstrap: str | None, group: str) -> Consumer:
        return Consumer({"bootstrap.servers": bootstrap or "", "group.id": group, "enable.auto.commit": False, "log_level": 0})

    def copied(self, topic: str) -> list[str]:
        """The oracle: what a reader of the lake's copy gets."""
        lake = self.platform.lake_kafka()
        state = lake.states([topic]).get(topic)
        return [(r.value or b"").decode() for r in lake.records(topic, state.ranges)] if state else []


def source(name: str, *topics: str, **settings: str) -> TopicSource:
    tables = [{"name": t, "topic": t, "envelope": "json", "columns": {"id": "text"}} for t in topics]
    return TopicSource.model_validate({"source": name, "kind": "topics", "tables": tables, "topics": settings})


def captured(name: str, *tables: str) -> Source:
    """A source whose topics a connector of ours fills; here the test does."""
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    return Source.model_validate({"source": name, "database": database, "tables": [{"name": table} for table in tables]})


def forget(bootstrap: str, topic: str, before: int) -> None:
    """As retention does it: the records of partition 0 before this offset are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(60)


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def clusters_of(live: LiveSource, lake: Lake) -> Iterator[Clusters]:
    """The two that the run has already; no mirror of these tests is left behind."""
    core, url = live.bootstrap, lake.connect.url
    platform = Platform(core_bootstrap=core, lake_bootstrap=lake.bootstrap, lake_connect_url=url)  # type: ignore[attr-defined]
    admin = AdminClient({"bootstrap.servers": core, "log_level": 0})
    before = set(lake.connect.connectors())
    try:
        yield Clusters(live.home, platform, admin, Producer({"bootstrap.servers": core, "log_level": 0}))
    finally:
        for name in set(lake.connect.connectors()) - before:
            lake.connect.delete(name)
