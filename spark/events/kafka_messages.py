"""Committed messages of exact offset ranges, by librdkafka, to their ends.

A range may end in control records, which are never delivered: the consumer's position tells that it is done. A range that
begins before what the topic holds is refused by `auto.offset.reset=error`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark.errors import LeftToSparkError, quantity
from spark.events.kafka_login import librdkafka, read_login
from spark.events.moved_offsets import kafka_ranges
from spark.specs import BronzeSpec, TopicRange

SECONDS = 15.0
"""Without an answer, or another record."""
SETTINGS: Mapping[str, Any] = {
    "group.id": "cdc_assets-reader",  # never committed: positions live in the Delta log
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 10,
    # Where its queue is full, librdkafka fetches again after a second unless told otherwise.
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 256 << 10,
    "max.partition.fetch.bytes": 8 << 20,
    "log_level": 0,
}
Place = tuple[str, int]


def client_settings(spec: BronzeSpec) -> dict[str, Any]:
    """Of a consumer that reads the spec's cluster."""
    login = librdkafka(read_login(spec.login)) if spec.login else {}
    return {"bootstrap.servers": spec.bootstrap, **SETTINGS, **login}


@contextmanager
def limit_memory(more: int) -> Iterator[None]:
    """Within, this process gets no more than so many bytes of addresses beyond what it has: librdkafka bounds what zstd unpacks
    to, and nothing else does so for gzip, LZ4 and Snappy. What asks for more fails, or the process ends."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # no Linux: nothing tells what the process has
        yield
        return
    bound = pages * resource.getpagesize() + more
    known = [limit for limit in before if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([bound, *known]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def login_time(spec: BronzeSpec) -> float:
    """When the spec's login was written; 0 without one."""
    return os.stat(spec.login).st_mtime if spec.login else 0.0  # noqa: PTH116 - a text, as the spec has it


def kafka_spans(topics: Sequence[TopicRange]) -> dict[Place, tuple[int, int]]:
    """By topic and partition, in Kafka's offsets; without what is empty."""
    return {(t.topic, p): (start, end) for t in topics for p, (start, end) in kafka_ranges(t).items() if end > start}


def assign(consumer: Any, ranges: Mapping[Place, tuple[int, int]]) -> None:
    """The consumer begins at the ranges' starts."""
    from confluent_kafka import TopicPartition

    # Without it librdkafka asks for the leaders of a topic that is new to it only when a timer of 1 s fires.
    consumer.list_topics(next(iter(ranges))[0] if len(ranges) == 1 else None, timeout=SECONDS)
    consumer.assign([TopicPartition(topic, p, start) for (topic, p), (start, _) in ranges.items()])


def read_messages(
    consumer: Any, ranges: Mapping[Place, tuple[int, int]], most: int, *, patience: float = SECONDS
) -> Iterator[Sequence[Any]]:
    """Up to `most` messages at a time, until the position of each partition is at its range's end; some lie beyond it.

    `patience`: seconds without an answer, or another record.

    Raises:
        LeftToSparkError: Kafka does not hand them out (the cause is its KafkaException), or not in time.
    """
    from confluent_kafka import KafkaException, TopicPartition

    until, left = time.monotonic() + patience, {place: end for place, (_, end) in ranges.items()}
    while left:
        if time.monotonic() > until:
            raise LeftToSparkError(f"{quantity(len(left), 'partition')} not read within {patience:.0f} s")
        messages = consumer.consume(most, 0.02)
        if messages:
            until = time.monotonic() + patience
        for message in messages:
            if (error := message.error()) is not None:
                raise LeftToSparkError(f"Kafka does not hand out {message.topic()}: {error.str()}") from KafkaException(error)
        yield messages
        for at in consumer.position([TopicPartition(*place) for place in left]):
            if at.offset >= left[at.topic, at.partition]:
                del left[at.topic, at.partition]
