"""How far a topic of the core cluster is in its copy, told by the records alone: MirrorMaker's offset may be lost, or too far.

Both hold the same records in the same order with the same times. So of those that are not older than the copy's last one, the
first n of the core are the n of the copy, and Kafka finds the first of them by its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from cdc_assets.errors import RestoreError
from cdc_assets.peek.records import offsets_at
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.topic_state import Record, TopicState

_FIRST_LOOK = 100


def last_copied(core: KafkaCluster, original: TopicState, lake: KafkaCluster, copy: TopicState) -> dict[int, int | None]:
    """Per partition the core's offset of the last record that is copied; None: of none. Offsets are Kafka's own.

    Raises:
        RestoreError: neither topic holds the record that the other one ends with.
    """
    found: dict[int, int | None] = {}
    for partition in copy.ranges:
        ends = _last(core, original, partition), _last(lake, copy, partition)
        if None in ends:
            found[partition] = None
            continue
        at = _place_of_end(core, original, lake, copy, partition)
        if at is None and ends[0] is not None and holds(lake, copy, ends[0]):
            # A topic of the core that was made again ends before its copy: all of it is copied.
            at = ends[0].offset
        if at is None:
            raise RestoreError(
                f"topic {original.name} partition {partition} does not hold the last records of its copy {copy.name}: where the "
                f"copy goes on cannot be told; cdc repair mirror {original.name}"
            )
        found[partition] = at
    return found


def _place_of_end(core: KafkaCluster, original: TopicState, lake: KafkaCluster, copy: TopicState, partition: int) -> int | None:
    """The core's offset of the copy's last record, where each record that is not older is the same in both."""
    at, last = None, _last(lake, copy, partition)
    assert last is not None
    here = _not_older(core, original, partition, last.timestamp)
    for wanted in _not_older(lake, copy, partition, last.timestamp):
        record = next(here, None)
        if record is None or not is_same(record, wanted):
            return None
        at = record.offset
    return at


def holds(core: KafkaCluster, original: TopicState, record: Record) -> bool:
    """Whether the topic holds a record of the copy."""
    return any(is_same(each, record) for each in _not_older(core, original, record.partition, record.timestamp))


def is_same(left: Record, right: Record) -> bool:
    """But for their offsets."""
    return (left.timestamp, left.key, left.value, left.headers) == (right.timestamp, right.key, right.value, right.headers)


def _not_older(cluster: KafkaCluster, state: TopicState, partition: int, timestamp: int) -> Iterator[Record]:
    when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp)
    start, end = offsets_at(cluster, state, when).get(partition), state.ranges.get(partition, (0, 0))[1]
    if start is None or start >= end:
        return
    for record in cluster.records(state.name, {partition: (start, end)}):
        if record.timestamp >= timestamp:
            yield record


def _last(cluster: KafkaCluster, state: TopicState, partition: int) -> Record | None:
    """The last committed record: behind it may lie control records, which are never delivered."""
    begin, end = state.ranges.get(partition, (0, 0))
    look = _FIRST_LOOK
    while begin < end:
        start = max(begin, end - look)
        found = list(cluster.records(state.name, {partition: (start, end)}))
        if found or start == begin:
            return found[-1] if found else None
        look *= 10
    return None
