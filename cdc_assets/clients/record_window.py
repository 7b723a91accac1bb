"""Which records of a topic are looked at: the newest, those from an offset or a time on, those of a key, those that come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import chain, islice

from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.field_types import parse_duration
from spark.events.moved_offsets import our_offset

Ranges = dict[int, tuple[int, int]]
_READ_SECONDS = 600.0
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class PeekWindow:
    """From where on records are read (`at`: an offset, a moment, or so long ago; None: the end), how many at most, of which
    partition (None: all), and which of them."""

    at: str | None = None
    limit: int = 10
    partition: int | None = None
    wanted: Callable[[Record], bool] | None = None


def read_window(cluster: KafkaCluster, topic: str, window: PeekWindow) -> tuple[list[Record], dict[int, int]]:
    """The records in the order of their time, and the offsets up to which the topic was looked at.
    Raises ServiceError: the topic is gone, has no such partition, or `at` cannot be read."""
    state = _state(cluster, topic)
    ranges = _ranges(cluster, state, window)
    ends = {partition: end for partition, (_, end) in ranges.items()}
    if window.at is not None:
        records = [record for partition, span in ranges.items() for record in _first(cluster, topic, {partition: span}, window)]
        return _in_order(records)[: window.limit], ends
    newest = _newest(cluster, topic, ranges, window)
    return _in_order(chain.from_iterable(newest.values()))[-window.limit :], ends


def _newest(cluster: KafkaCluster, topic: str, ranges: Ranges, window: PeekWindow) -> dict[int, deque[Record]]:
    """Of each partition the newest records.

    Markers of transactions and records that are compacted away take offsets, and are no records: it is looked further back
    until there are enough, or nothing is left.
    """
    newest: dict[int, deque[Record]] = {}
    left, span = ranges, window.limit
    while left:
        looked = {p: (start if window.wanted else max(start, end - span), end) for p, (start, end) in left.items()}
        newest |= {partition: deque[Record](maxlen=window.limit) for partition in looked}
        for record in _matching(cluster, topic, looked, window):
            newest[record.partition].append(record)
        left = {p: left[p] for p, (begin, _) in looked.items() if begin > left[p][0] and len(newest[p]) < window.limit}
        span *= 8
    return newest


def start_offsets(cluster: KafkaCluster, topic: str, window: PeekWindow) -> dict[int, int]:
    """Of each partition the first offset that is looked at. Raises ServiceError: as `read_window`."""
    return {partition: start for partition, (start, _) in _ranges(cluster, _state(cluster, topic), window).items()}


def follow(cluster: KafkaCluster, topic: str, window: PeekWindow, seen: Mapping[int, int]) -> Iterator[Record]:
    """What comes behind these offsets, without an end. Raises ServiceError: the topic is gone."""
    offsets = dict(seen)
    while True:
        state = _state(cluster, topic)
        ranges = {p: (max(offsets.get(p, begin), begin), end) for p, (begin, end) in _chosen(state, window).items()}
        yield from _matching(cluster, topic, ranges, window)
        offsets.update({p: end for p, (_, end) in ranges.items()})
        time.sleep(_LOOK_SECONDS)


def _state(cluster: KafkaCluster, topic: str) -> TopicState:
    state = cluster.states([topic]).get(topic)
    if state is None:
        raise ServiceError(f"topic {topic} is gone from {cluster.bootstrap}")
    return state


def _chosen(state: TopicState, window: PeekWindow) -> Ranges:
    if window.partition is None:
        return dict(state.ranges)
    if window.partition not in state.ranges:
        has = ", ".join(map(str, sorted(state.ranges)))
        raise ServiceError(f"topic {state.name} has no partition {window.partition}; it has {has}")
    return {window.partition: state.ranges[window.partition]}


def _ranges(cluster: KafkaCluster, state: TopicState, window: PeekWindow) -> Ranges:
    ranges = _chosen(state, window)
    if window.at is None:
        return ranges
    is_offset = window.at.isdigit()
    starts = dict.fromkeys(ranges, int(window.at)) if is_offset else offsets_at(cluster, state, moment(window.at))
    return {p: (min(max(begin, starts.get(p, end)), end), end) for p, (begin, end) in ranges.items()}


def moment(text: str) -> datetime:
    """`2026-11-25T12:00`, in UTC where it names no zone, or `5m`: so long ago. Raises ServiceError: it is neither."""
    try:
        return datetime.now(timezone.utc) - parse_duration(text)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ServiceError(f"--at {text!r} is no offset (1200), no time (2026-11-25T12:00) and no duration ago (5m)") from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)


def offsets_at(cluster: KafkaCluster, state: TopicState, when: datetime) -> dict[int, int]:
    """Of each partition the first offset at or behind a moment; a partition that has none is left out."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    since = (when - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    request = {TopicPartition(state.name, p): OffsetSpec.for_timestamp(since) for p in state.ranges}
    try:
        answers = cluster.clients.admin().list_offsets(request)
        offsets = {at.partition: cluster.clients.answer(answer).offset for at, answer in answers.items()}
    except KafkaException as error:
        raise cluster.clients.error(f"topic {state.name} at {cluster.bootstrap}", error.args[0]) from error
    return {p: our_offset(state.moves.get(p, ()), offset) for p, offset in offsets.items() if offset >= 0}


def _first(cluster: KafkaCluster, topic: str, ranges: Ranges, window: PeekWindow) -> list[Record]:
    return [*islice(_matching(cluster, topic, ranges, window), window.limit)]


def _matching(cluster: KafkaCluster, topic: str, ranges: Ranges, window: PeekWindow) -> Iterator[Record]:
    for record in cluster.records(topic, ranges, deadline=_READ_SECONDS):
        if window.wanted is None or window.wanted(record):
            yield record


def _in_order(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.timestamp, record.partition, record.offset))
