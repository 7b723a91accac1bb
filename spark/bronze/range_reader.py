"""Committed records of exact offset ranges as Arrow, in the columns of Spark's Kafka source (spark.events.kafka_messages)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark.errors import LeftToSparkError
from spark.events import large_records
from spark.events.arrow_records import bronze_schema, keep_rows
from spark.events.kafka_messages import Place, assign, client_settings, kafka_spans, limit_memory, login_time, read_messages
from spark.events.moved_offsets import Moves
from spark.specs import KAFKA_NAMES, BronzeSpec, TopicRange

SCHEMA = bronze_schema(KAFKA_NAMES)
_CHUNK = 20_000
_consumers: dict[tuple[str, str, float], Any] = {}


MOST_BYTES = 512 << 20
"""Of records that one task reads: it holds them all."""
MEMORY = 4 << 30
"""Bytes of addresses that reading them may take, with what librdkafka has fetched."""


def read_ranges(spec: BronzeSpec, topics: Sequence[TopicRange]) -> list[pa.Table]:
    """The records in chunks, in SCHEMA; those of a partition in their order.

    Raises:
        LeftToSparkError: Kafka does not hand them out, or not in time.
    """
    from confluent_kafka import KafkaException

    ranges = kafka_spans(topics)
    if not ranges:
        return []
    moved = {(t.topic, p): moves for t in topics for p, moves in t.moved.items() if moves}
    try:
        consumer = _consumer(spec)
        assign(consumer, ranges)
        try:
            with limit_memory(MEMORY):
                return [_with_our_offsets(chunk, moved) for chunk in _refuse_large(_chunks(consumer, ranges))]
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

    place = (spec.bootstrap, spec.login, login_time(spec))
    if place not in _consumers:
        _consumers.clear()
        _consumers[place] = Consumer(client_settings(spec))
    return _consumers[place]


def _chunks(consumer: Any, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[pa.Table]:
    """A message takes twice the memory of its row, so that they are kept as rows."""
    found: list[Any] = []
    for messages in read_messages(consumer, ranges, 10_000):
        if any(len(message) > large_records.MOST_BYTES for message in messages):
            raise LeftToSparkError(f"a record has more than {large_records.MOST_BYTES >> 20} MiB")
        found += messages
        if len(found) >= _CHUNK:
            yield _table(found, ranges)
            found = []
    if found:
        yield _table(found, ranges)


def _table(messages: Sequence[Any], ranges: Mapping[Place, tuple[int, int]]) -> pa.Table:
    """Those within their ranges: a fetch does not end where a range does. A call for each message is what this costs."""
    count = len(messages)
    offsets = np.fromiter((m.offset() for m in messages), np.int64, count)
    if len(ranges) == 1:
        [((topic, partition), (_, end))] = ranges.items()
        topics, partitions = pa.repeat(topic, count), pa.repeat(pa.scalar(partition, pa.int32()), count)
        within = offsets < end
    else:
        topics, partitions = [m.topic() for m in messages], [m.partition() for m in messages]
        ends = (ranges.get(place, (0, 0))[1] for place in zip(topics, partitions, strict=True))
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
    columns = [cells if isinstance(cells, pa.Array) else pa.array(cells, f.type) for cells, f in zip(values, SCHEMA, strict=True)]
    return keep_rows(pa.table(columns, schema=SCHEMA), pa.array(within))


def _with_our_offsets(chunk: pa.Table, moved: Mapping[Place, Moves]) -> pa.Table:
    """As spark.events.moved_offsets: of topics that were made again from a backup."""
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


def _headers(headers: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, object]] | None:
    return [{"key": key, "value": value} for key, value in headers] if headers else None
