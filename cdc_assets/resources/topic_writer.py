"""Records written into an empty topic as they are: keys, values, headers, timestamps, the order of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdc_assets.errors import KafkaError
from cdc_assets.quantity import quantity
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.topic_state import Record

_SETTINGS = {
    # Each once and in their order, whatever has to be sent again.
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
_FLUSH_SECONDS = 120.0


class TopicWriter:
    """One producer for several topics of a cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        from confluent_kafka import Producer

        self._cluster, self._failed = cluster, list[str]()
        self._producer: Any = cluster.clients.make(Producer, **_SETTINGS)

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """All of them, acknowledged by every replica in sync.

        Raises:
            KafkaError: one was not.
        """
        for record in records:
            self._send(topic, record)
        left = self._producer.flush(_FLUSH_SECONDS)
        self._refuse(topic)
        if left:
            raise KafkaError(f"{topic} at {self._cluster.bootstrap}: {quantity(left, 'record')} not acknowledged in time")

    def _send(self, topic: str, record: Record) -> None:
        headers = list(record.headers) or None
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=headers,
                    on_delivery=self._tell,
                )
                self._producer.poll(0)
                break
            except BufferError:
                self._producer.poll(0.5)
            self._refuse(topic)

    def _tell(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error.str()))

    def _refuse(self, topic: str) -> None:
        self._cluster.clients.refuse()
        if self._failed:
            raise KafkaError(f"{topic} at {self._cluster.bootstrap} does not take a record: {self._failed[0]}")
