"""A topic and a record of it, as they lie in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark.kafka.moved_offsets import Moves, kafka_offset, most_at_once, moves_within


@dataclass(frozen=True)
class TopicState:
    """A topic as it is now: its identity, and per partition `(begin, last stable offset)`.

    `moves`: by partition, where Kafka's own offsets are others (spark.kafka.moved_offsets); empty for nearly every topic.
    """

    name: str
    topic_id: str
    ranges: Mapping[int, tuple[int, int]]
    moves: Mapping[int, Moves] = field(default_factory=dict)

    @property
    def ends(self) -> dict[int, int]:
        """The last stable offset of each partition."""
        return {partition: end for partition, (_, end) in self.ranges.items()}

    @property
    def kafka_ends(self) -> dict[int, int]:
        """The same, by Kafka's own offsets."""
        return {partition: kafka_offset(self.moves.get(partition, ()), end) for partition, end in self.ends.items()}

    def moves_of(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, Moves]:
        """What a reader of these ranges must know of Kafka's own offsets."""
        return {p: moves_within(self.moves[p], *bounds) for p, bounds in ranges.items() if self.moves.get(p)}

    def cut(self, partition: int, start: int, end: int) -> int:
        """Where a batch that begins at `start` ends at the latest."""
        return most_at_once(self.moves.get(partition, ()), start, end)


class Record(NamedTuple):
    """One committed record, as it lies in the topic. A tuple, because millions are made."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
