"""Committed records of exact offset ranges as Arrow, in the columns of Spark's Kafka source.

A range may end in control records, which are never delivered: the consumer's position tells that it is done. A range that
begins before what the topic holds is refused by `auto.offset.reset=error`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark.envelopes.arrow_rows import keep_rows
from spark.errors import LeftToSparkError, quantity
from spark.kafka.librdkafka import librdkafka
from spark.kafka.login import read_login
from spark.kafka.moved_offsets import Moves, kafka_ranges
from spark.specs import BronzeSpec, TopicRange

SECONDS = 15.0
"""Without an answer, or another record."""
_SETTINGS = {
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
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", HEADERS),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
_CHUNK = 20_000
Place = tuple[str, int]
_consumers: dict[tuple[str, str, float], Any] = {}


MOST_BYTES = 512 << 20
"""Of records that one task reads: it holds them all."""


def read_ranges(spec: BronzeSpec, topics: Sequence[TopicRange]) -> list[pa.Table]:
    """The records in chunks, in SCHEMA; those of a partition in their order.

    Raises:
        LeftToSparkError: Kafka does not hand them out, or not in time.
    """
    from confluent_kafka import KafkaException, TopicPartition

    asked = [(t.topic, p, start, end) for t in topics for p, (start, end) in kafka_ranges(t).items() if end > start]
    if not asked:
        return []
    places = {(topic, p): end for topic, p, _, end in asked}
    starts = [TopicPartition(topic, p, start) for topic, p, start, _ in asked]
    moved = {(t.topic, p): moves for t in topics for p, moves in t.moved.items() if moves}
    try:
        consumer = _consumer(spec)
        # Without it librdkafka asks for the leaders of a topic that is new to it only when a timer of 1 s fires.
        consumer.list_topics(starts[0].topic if len(places) == 1 else None, timeout=SECONDS)
        consumer.assign(starts)
        try:
            return [_with_our_offsets(chunk, moved) for chunk in _refuse_large(_chunks(consumer, places))]
        finally:
            consumer.unassign()
    except KafkaException as error:
        _consumers.clear()
        raise LeftToSparkError(f"Kafka at {spec.bootstrap}: {error.args[0].str()}") from error


def _refuse_large(chunks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    size = 0
    for chunk in chunks:
        size += chunk.nbytes
        if size > MOST_BYTES:
            raise LeftToSparkError(f"the records have more than {MOST_BYTES >> 20} MiB")
        yield chunk


def _consumer(spec: BronzeSpec) -> Any:
    """One for each cluster and login, for as long as the worker lives: a new one costs a quarter of a second."""
    from confluent_kafka import Consumer

    written = os.stat(spec.login).st_mtime if spec.login else 0.0  # noqa: PTH116 - a text, as the spec has it
    place = (spec.bootstrap, spec.login, written)
    if place not in _consumers:
        _consumers.clear()
        login = librdkafka(read_login(spec.login)) if spec.login else {}
        _consumers[place] = Consumer({"bootstrap.servers": spec.bootstrap, **_SETTINGS, **login})
    return _consumers[place]


def _chunks(consumer: Any, places: dict[Place, int]) -> Iterator[pa.Table]:
    """A message takes twice the memory of its row, so that they are kept as rows."""
    from confluent_kafka import TopicPartition

    found: list[Any] = []
    until, left = time.monotonic() + SECONDS, dict(places)
    while left:
        if len(found) >= _CHUNK:
            yield _table(found, places)
            found = []
        if time.monotonic() > until:
            raise LeftToSparkError(f"{quantity(len(left), 'partition')} not read within {SECONDS:.0f} s")
        messages = consumer.consume(10_000, 0.02)
        if messages:
            until = time.monotonic() + SECONDS
        for message in messages:
            if (error := message.error()) is not None:
                raise LeftToSparkError(f"Kafka does not hand out {message.topic()}: {error.str()}")
        found += messages
        for at in consumer.position([TopicPartition(*place) for place in left]):
            if at.offset >= left[at.topic, at.partition]:
                del left[at.topic, at.partition]
    if found:
        yield _table(found, places)


def _table(messages: Sequence[Any], places: dict[Place, int]) -> pa.Table:
    """Those within their ranges: a fetch does not end where a range does. A call for each message is what this costs."""
    count = len(messages)
    offsets = np.fromiter((m.offset() for m in messages), np.int64, count)
    if len(places) == 1:
        [((topic, partition), end)] = places.items()
        topics, partitions = pa.repeat(topic, count), pa.repeat(pa.scalar(partition, pa.int32()), count)
        within = offsets < end
    else:
        topics, partitions = [m.topic() for m in messages], [m.partition() for m in messages]
        ends = (places.get(place, 0) for place in zip(topics, partitions, strict=True))
        within = offsets < np.fromiter(ends, np.int64, count)
    times = np.fromiter((m.timestamp()[1] for m in messages), np.int64, count) * 1000
    headers = [_headers(m.headers()) for m in messages]
    values = (
        topics,
        partitions,
        offsets,
        times.view("M8[us]"),
        headers,
        [m.key() for m in messages],
        [m.value() for m in messages],
    )
    columns = [each if isinstance(each, pa.Array) else pa.array(each, f.type) for each, f in zip(values, SCHEMA, strict=True)]
    return keep_rows(pa.table(columns, schema=SCHEMA), pa.array(within))


def _with_our_offsets(chunk: pa.Table, moved: Mapping[Place, Moves]) -> pa.Table:
    """As spark.kafka.moved_offsets: of topics that were made again from a backup."""
    if not moved:
        return chunk
    offsets = chunk["offset"].to_numpy().copy()
    of_topic, of_partition = np.asarray(chunk["topic"].to_pylist()), chunk["partition"].to_numpy()
    for (topic, partition), moves in moved.items():
        here = (of_topic == topic) & (of_partition == partition)
        kafkas, ours = np.asarray(moves, np.int64).T
        runs = np.maximum(np.searchsorted(kafkas, offsets[here], side="right") - 1, 0)
        offsets[here] += (ours - kafkas)[runs]
    return chunk.set_column(SCHEMA.get_field_index("offset"), "offset", pa.array(offsets))


def _headers(told: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, object]] | None:
    return [{"key": key, "value": value} for key, value in told] if told else None
