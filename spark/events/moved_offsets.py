"""Offsets of a topic that was made again from a backup: ours go on as in the topic before it, Kafka's own begin at 0.

The moves of a partition are `(Kafka's offset, ours)`, ascending in both: from each to the next one the two differ by one number.
The last one is where the backup ended: whatever is written behind it keeps that difference. No moves: both are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from spark.specs import TopicRange

Moves = tuple[tuple[int, int], ...]
MOST_MOVES = 500
"""In one batch of a partition: Spark compares each record with them."""


def our_offset(moves: Moves, offset: int) -> int:
    """Ours of one of Kafka's."""
    if not moves:
        return offset
    kafkas, ours = moves[max(0, bisect_right(moves, offset, key=itemgetter(0)) - 1)]
    return ours + offset - kafkas


def kafka_offset(moves: Moves, offset: int) -> int:
    """Kafka's of the first record that is at or behind one of ours: what is between two moves is in no topic."""
    if not moves:
        return offset
    at = bisect_right(moves, offset, key=itemgetter(1)) - 1
    if at < 0:
        return moves[0][0]
    kafkas, ours = moves[at]
    reached = kafkas + offset - ours
    return min(reached, moves[at + 1][0]) if at + 1 < len(moves) else reached


def moves_within(moves: Moves, start: int, end: int) -> Moves:
    """Those that offsets of ours from `start` up to `end` need: the next one says where the last of them ends."""
    first = max(0, bisect_right(moves, start, key=itemgetter(1)) - 1)
    return moves[first : bisect_right(moves, end, key=itemgetter(1)) + 1]


def most_at_once(moves: Moves, start: int, end: int) -> int:
    """Where a batch from `start` on ends, so that it has no more than MOST_MOVES."""
    behind = bisect_right(moves, start, key=itemgetter(1)) + MOST_MOVES
    return min(end, moves[behind][1]) if behind < len(moves) else end


def kafka_ranges(topic: TopicRange) -> dict[int, tuple[int, int]]:
    """The topic's ranges by Kafka's offsets."""
    moved = {p: topic.moved.get(p, ()) for p in topic.ranges}
    return {p: (kafka_offset(moved[p], start), kafka_offset(moved[p], end)) for p, (start, end) in topic.ranges.items()}
