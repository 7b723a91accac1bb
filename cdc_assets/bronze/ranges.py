"""Which offsets bronze reads next: from what it has committed to the last stable offset, in bounded batches.

A topic is its id, not its name, and its first offset only rises. Whatever contradicts what bronze has committed
is an error that names topic, partition and offsets: reading on would lose records without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdc_assets.errors import TopicGapError
from cdc_assets.resources.kafka import TopicState

Ranges = dict[int, tuple[int, int]]


def pending_ranges(
    state: TopicState, *, positions: Mapping[int, int] | None, topic_id: str | None, from_zero: bool = False
) -> Ranges:
    """Everything not read yet, per partition; empty ranges included.

    `positions` and `topic_id` are what bronze has committed; None when it has nothing of this topic. `from_zero`: the topic is
    our own connector's, so its first record, of the table's snapshot, has offset 0; one that others fill begins anywhere.

    Raises:
        TopicGapError: the topic was recreated, truncated, or retention has outrun bronze.
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


def _as_asked(_: int, __: int, end: int) -> int:
    return end


def batches(
    ranges: Mapping[int, tuple[int, int]], *, max_records: int, cut: Callable[[int, int, int], int] = _as_asked
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
