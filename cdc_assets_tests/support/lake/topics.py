"""Topics on a real broker, filled by transactional producers, for the tests of bronze."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from spark.specs import TopicRange

PATIENCE = 300.0
"""Seconds for one answer of a broker, which takes milliseconds."""
_NOT_YET = (
    *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART),
    *(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH),
)


@dataclass(frozen=True)
class Broker:
    bootstrap: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def topic(self, *, partitions: int = 1) -> str:
        name = f"core.source.public.t{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not self._has_leader(name):
            assert time.monotonic() < deadline, f"{name} has no leader"
            time.sleep(0.02)
        return name

    def _has_leader(self, topic: str) -> bool:
        found = self.admin.list_topics(topic, timeout=PATIENCE).topics[topic]
        if not found.partitions or any(p.leader < 0 for p in found.partitions.values()):
            return False
        # The metadata name a leader a moment before the broker knows that it is one.
        try:
            for partition in found.partitions:
                self._end(topic, partition, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET:
                return False
            raise
        return True

    def transaction(self, topic: str, values: Sequence[str], *, end: str = "commit", partition: int = 0) -> Producer:
        """One transaction; `end` is commit, abort or open (then the producer must be kept)."""
        keyed = [(f'{{"id":{number}}}', value) for number, value in enumerate(values)]
        return self.send(topic, keyed, end=end, partition=partition)

    def send(
        self,
        topic: str,
        records: Sequence[tuple[str | None, str | None]],
        *,
        end: str = "commit",
        partition: int = 0,
        codec: str = "none",
    ) -> Producer:
        """The same of keys and values."""
        start = self._end(topic, partition, IsolationLevel.READ_UNCOMMITTED)
        own = {"transactional.id": uuid.uuid4().hex, "compression.type": codec}
        producer = Producer({"bootstrap.servers": self.bootstrap, **own})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        for key, value in records:
            # Written out as bytes: None is a tombstone.
            texts = [None if text is None else text.encode() for text in (value, key)]
            producer.produce(topic, *texts, partition, headers=[("h", b"\x00\xff")])
        producer.flush(PATIENCE)
        if end == "commit":
            producer.commit_transaction(PATIENCE)
        elif end == "abort":
            producer.abort_transaction(PATIENCE)
        if end != "open":
            # The coordinator answers before its marker is in the partition.
            self._wait_for(topic, partition, start + len(records) + 1)
        return producer

    def _wait_for(self, topic: str, partition: int, offset: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.last_stable(topic, partition) < offset:
            assert time.monotonic() < deadline, f"{topic}: the last stable offset does not reach {offset}"
            time.sleep(0.02)

    def last_stable(self, topic: str, partition: int = 0) -> int:
        return self._end(topic, partition, IsolationLevel.READ_COMMITTED)

    def _end(self, topic: str, partition: int, isolation: IsolationLevel) -> int:
        place = TopicPartition(topic, partition)
        asked = self.admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
        return int(asked[place].result(PATIENCE).offset)

    def commit(self, producer: Producer, topic: str) -> None:
        """End a transaction that was left open."""
        start = self._end(topic, 0, IsolationLevel.READ_UNCOMMITTED)
        producer.commit_transaction(PATIENCE)
        self._wait_for(topic, 0, start + 1)

    def delete_before(self, topic: str, offset: int) -> None:
        place = TopicPartition(topic, 0, offset)
        self.admin.delete_records([place])[place].result(PATIENCE)

    def range(self, topic: str, start: int = 0, end: int | None = None) -> TopicRange:
        stop = self.last_stable(topic) if end is None else end
        return TopicRange(topic.rpartition(".")[2], topic, "id-1", 0, {0: (start, stop)})
