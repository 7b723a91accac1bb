"""Which offsets bronze reads next: from what it has committed to the last stable offset, in bounded batches; and the wait
until a topic has a committed record more.

A topic that begins behind what bronze has committed has lost records, and is an error here. The broker holds its answer
back while nothing is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.record_window import Ranges
from cdc_assets.registry.errors import TopicGapError


def pending_ranges(
    state: TopicState, *, positions: Mapping[int, int] | None, topic_id: str | None, from_zero: bool = False
) -> Ranges:
    """Everything not read yet, per partition; empty ranges included.

    `positions` and `topic_id` are what bronze has committed; None when it has nothing of this topic. `from_zero`: the topic is
    our own connector's, so its first record, of the table's snapshot, has offset 0; one that others fill begins anywhere.

    A topic is its id, not its name, and its first offset only rises. Whatever contradicts what bronze has committed is an error
    that names topic, partition and offsets: reading on would lose records without a word.

    Raises TopicGapError: the topic was recreated, truncated, or retention has outrun bronze.
    """
    if topic_id is not None and topic_id != state.topic_id:
        raise TopicGapError(
            f"topic {state.name} was recreated: its id is {state.topic_id}, bronze has read {topic_id}. Records between "
            "the two may be lost; the table must be read again"
        )
    ranges: Ranges = {}
    for partition, (begin, end) in sorted(state.ranges.items()):
        start = (positions or {}).get(partition)
        if start is None and not (from_zero and positions is None):
            ranges[partition] = (begin, end)
            continue
        start = start or 0
        if begin > start:
            raise TopicGapError(
                f"topic {state.name} partition {partition}: offsets {start} to {begin - 1} are gone before bronze read "
                "them (retention); the table must be read again"
            )
        if end < start:
            raise TopicGapError(
                f"topic {state.name} partition {partition} ends at offset {end}, bronze has read up to {start}: "
                "the topic was truncated; the table must be read again"
            )
        ranges[partition] = (start, end)
    return ranges


def width(ranges: Mapping[int, tuple[int, int]]) -> int:
    """Offsets in the ranges: an upper bound of the records in them."""
    return sum(end - start for start, end in ranges.values())


def batches(
    ranges: Mapping[int, tuple[int, int]], *, max_records: int, cut: Callable[[int, int, int], int] = lambda _, __, end: end
) -> Iterator[Ranges]:
    """Cut ranges into consecutive batches of at most `max_records` offsets per table (at least one per partition).

    `cut(partition, start, end)` may end one sooner.
    """
    share = max(1, max_records // max(1, len(ranges)))
    left = {partition: bounds for partition, bounds in ranges.items() if bounds[1] > bounds[0]}
    while left:
        batch = {p: (start, cut(p, start, min(end, start + share))) for p, (start, end) in left.items()}
        yield batch
        left = {p: (batch[p][1], end) for p, (_, end) in left.items() if batch[p][1] < end}


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
    """Of one cluster; the consumer is made at the first watch.

    One consumer stays assigned to the topics, and reads what comes only to know that it came: bronze reads for itself. So that
    this costs little while much comes, it fetches a few records at a time and leaves the rest (`jump`).
    """

    def __init__(self, kafka: KafkaCluster) -> None:
        self._kafka = kafka
        self._consumer: Any = None
        self._watched: frozenset[tuple[str, int]] = frozenset()

    def watch(self, ends: Mapping[str, Mapping[int, int]], *, jump: bool = False) -> None:
        """Records at these offsets, `{topic: {partition: offset}}`, and later ones are new.

        What is watched already goes on from where it is, unless it is to `jump`.
        """
        from confluent_kafka import Consumer, TopicPartition

        partitions = frozenset((topic, partition) for topic, offsets in ends.items() for partition in offsets)
        if partitions == self._watched and not jump:
            return
        if self._consumer is None:
            self._consumer = self._kafka.clients.make(Consumer, **_SETTINGS)
        self._consumer.assign([TopicPartition(topic, partition, ends[topic][partition]) for topic, partition in partitions])
        self._watched = partitions

    def wait(self, seconds: float) -> bool:
        """Whether something new came, as soon as it did. Raises ServiceError: the cluster refuses the login."""
        if self._consumer is None:
            time.sleep(seconds)
            return False
        message = self._consumer.poll(seconds)
        self._kafka.clients.refuse()
        if message is None:
            return False
        if message.error() is not None:
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
