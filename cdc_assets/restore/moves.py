"""Where the offsets of restored records go, as they are written: Kafka numbers them from 0, without a hole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cdc_assets.resources.topic_state import Record
from spark.kafka.moved_offsets import Moves


class MoveNotes:
    """Of one topic, while it is filled."""

    def __init__(self) -> None:
        self.written: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._moves: dict[int, list[tuple[int, int]]] = {}

    def follow(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records; those of a partition ascend."""
        for record in records:
            at = self.written.get(record.partition, 0)
            if self._next.get(record.partition) != record.offset:
                self._moves.setdefault(record.partition, []).append((at, record.offset))
            self._next[record.partition], self.written[record.partition] = record.offset + 1, at + 1
            yield record

    def moves(self, ends: Mapping[int, int]) -> dict[int, Moves]:
        """By partition, with where the backup has ended: what comes behind the restored records goes on there."""
        found = {p: list(moves) for p, moves in self._moves.items()}
        for partition, end in ends.items():
            if self._next.get(partition) != end:
                found.setdefault(partition, []).append((self.written.get(partition, 0), end))
        return {p: tuple(moves) for p, moves in found.items()}
