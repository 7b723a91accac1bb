"""A topic of the lake's cluster that is filled with generated events, and what its table must hold afterwards."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

from typing_extensions import override

from benchmarks.bench.events import event_text, key_text, truncate_text, unsent_text
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.errors import ServiceError
from spark.errors import quantity

Record: TypeAlias = tuple[str | None, str]
"""Key and value, as JSON."""
_RETENTION_MS = 24 * 3600 * 1000
_DEADLINE = 120.0


class Sender:
    """One producer of a cluster for all topics: of five hundred each would connect anew."""

    def __init__(self, kafka: KafkaCluster) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
        self.kafka = kafka
        self._producer = kafka.clients.make(Producer, **settings)

    def send(self, topic: str, records: Iterable[Record], *, flush: bool = True) -> None:
        """Keys and values, until the cluster has them all; without `flush` they may still be on their way.

        Raises:
            ServiceError: it does not take them.
        """
        for key, value in records:
            while True:
                try:
                    self._producer.produce(topic, value, key)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if flush:
            self.flush()

    def poll(self) -> None:
        """Let the producer take answers of the cluster in."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Until the cluster has everything that was sent.

        Raises:
            ServiceError: it does not take it.
        """
        left = self._producer.flush(_DEADLINE)
        if left:
            lost = quantity(left, "record")
            raise ServiceError(f"{self.kafka.bootstrap} did not take {lost} within {_DEADLINE:.0f} s; ./cdc status")


class Feed:
    """One topic of one table; its rows have the keys 0 to `rows` - 1, and seeded random balances."""

    def __init__(self, sender: Sender, topic: str, rows: int) -> None:
        self.topic, self.rows = topic, rows
        self._sender, self._sent, self._late = sender, 0, 0
        self._balances = array("q", [0]) * rows
        self._random = random.Random(topic.rpartition("-")[2])
        self._newest: list[tuple[int, int]] = []
        """Keys and places in the log of the events that were sent last."""

    @property
    def sent(self) -> int:
        """Events that were sent so far, late ones apart."""
        return self._sent

    @property
    def versions(self) -> int:
        """Of all rows together, that a history must have."""
        return self._sent + self._late

    @property
    def expected(self) -> tuple[int, int]:
        """Rows, and the sum of their balances, that silver must have."""
        return self.rows, sum(self._balances)

    def create(self) -> None:
        """The topic, with one record for each row as a snapshot reads it."""
        kafka = self._sender.kafka
        kafka.ensure_topic(self.topic, partitions=1, retention_ms=_RETENTION_MS, replication_factor=None)
        kafka.await_state(self.topic, deadline=_DEADLINE)
        self._sender.send(self.topic, self._events("r", range(self.rows)))

    def update(self, number: int) -> None:
        """A new balance for so many different rows."""
        self._sender.send(self.topic, self._events("u", self._random.sample(range(self.rows), number)))

    def update_in_part(self, number: int) -> None:
        """A new balance for so many different rows, by events that lack the rest of the row."""
        keys = self._random.sample(range(self.rows), number)
        self._sender.send(self.topic, self._events("u", keys, unsent_text))

    def update_late(self, number: int) -> None:
        """Updates of the rows that changed last, each from before its row's newest change: they change no row."""
        behind = [(key_text(aid), event_text("u", aid, -1, at, early=True)) for aid, at in self._newest[-number:]]
        self._sender.send(self.topic, behind)
        self._late += number

    def truncate_and_load(self) -> None:
        """A TRUNCATE, and every row inserted again."""
        self._sender.send(self.topic, [(None, truncate_text(self._sent))], flush=False)
        self._sent += 1
        self._sender.send(self.topic, self._events("c", range(self.rows)))

    def _events(self, op: str, keys: Iterable[int], text: Callable[[int, int, int], str] | None = None) -> Iterator[Record]:
        text = text or partial(event_text, op)
        self._newest = []
        for aid in keys:
            balance = self._balances[aid] = self._random.randrange(10_000)
            yield key_text(aid), text(aid, balance, self._sent)
            self._newest.append((aid, self._sent))
            self._sent += 1


class SentTopic(Feed):
    """One that another process fills, which tells what a table of it must hold."""

    told: tuple[int, int] = (0, 0)

    @property
    @override
    def expected(self) -> tuple[int, int]:
        return self.told


def delete_topics(kafka: KafkaCluster, topics: Iterable[str]) -> None:
    """Those of them that are there."""
    if found := kafka.existing(list(topics)):
        for answer in kafka.clients.admin().delete_topics(list(found)).values():
            kafka.clients.answer(answer)
