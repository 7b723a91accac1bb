"""Waits until a topic has a committed record more, without asking again and again: the broker holds the answer back until then.

One consumer stays assigned to the topics, and reads what comes only to know that it came: bronze reads for itself. So that this
costs little while much comes, it fetches a few records at a time and leaves the rest (`jump`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from cdc_assets.resources.kafka import KafkaCluster

_SETTINGS = {
    "group.id": "cdc_assets-continuous",  # never committed: positions live in the Delta log
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "latest",  # what is gone from a topic is found by whoever looks at it
    "fetch.wait.max.ms": 500,
    "fetch.message.max.bytes": 16_384,
    "queued.min.messages": 100,
    "queued.max.messages.kbytes": 256,
    # Where its queue is full, librdkafka waits a second by default.
    "fetch.queue.backoff.ms": 100,
}
_DRAINED = 1000
_ERROR_SECONDS = 0.1


class TopicWatch:
    """Of one cluster; the consumer is made at the first watch."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka
        self._consumer: Any = None
        self._watched: frozenset[tuple[str, int]] = frozenset()

    def watch(self, ends: Mapping[str, Mapping[int, int]], *, jump: bool = False) -> None:
        """Records at these offsets, `{topic: {partition: offset}}`, and later ones are new.

        What is watched already goes on from where it is, unless it is to `jump`.
        """
        from confluent_kafka import Consumer, TopicPartition

        wanted = frozenset((topic, partition) for topic, offsets in ends.items() for partition in offsets)
        if wanted == self._watched and not jump:
            return
        if self._consumer is None:
            self._consumer = self._kafka.clients.make(Consumer, **_SETTINGS)
        self._consumer.assign([TopicPartition(topic, partition, ends[topic][partition]) for topic, partition in wanted])
        self._watched = wanted

    def wait(self, seconds: float) -> bool:
        """Whether something new came, as soon as it did.

        Raises:
            KafkaError: the cluster refuses the login.
        """
        if self._consumer is None:
            time.sleep(seconds)
            return False
        found = self._consumer.poll(seconds)
        self._kafka.clients.refuse()
        if found is None:
            return False
        if found.error() is not None:
            # Whatever it is, the next look at the topic meets it; told again and again it must not make the loop spin.
            time.sleep(min(seconds, _ERROR_SECONDS))
            return False
        self._consumer.consume(num_messages=_DRAINED, timeout=0)
        return True

    def close(self) -> None:
        """Let the connections go."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer, self._watched = None, frozenset()
