"""One other way to carry topics into tables."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.bench.errors import BenchError
from cdc_assets.clients.kafka import KafkaCluster

Ranges = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class PeerTable:
    """A table to fill, and the topic that it is filled from."""

    name: str
    topic: str


@dataclass(frozen=True)
class NewRecords:
    """What of the table's topic is not in it yet: per partition `[from, to)`."""

    table: PeerTable
    topic_id: str
    ranges: Ranges


class Peer(ABC):
    """`name` is told as the system of a figure."""

    name: ClassVar[str]
    at_most: ClassVar[tuple[int, int]] = (100, 5_000_000)
    """Of more tables, or of a larger one, it is not asked: that would take too long."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.kafka = kafka
        self._read: dict[PeerTable, dict[int, int]] = {}

    def takes(self, tables: int, rows: int) -> bool:
        """Whether it is measured with so many tables of so many rows."""
        return tables <= self.at_most[0] and rows <= self.at_most[1]

    def carry(self, tables: Sequence[PeerTable]) -> None:
        """What the topics hold and the tables do not.

        Raises:
            BenchError: a topic is gone.
        """
        states = self.kafka.states([table.topic for table in tables])
        wanted = []
        for table in tables:
            if table.topic not in states:
                raise BenchError(f"{self.name}: topic {table.topic} is not there any more at {self.kafka.bootstrap}")
            state, read = states[table.topic], self._read.get(table, {})
            ranges = {p: (read.get(p, begin), end) for p, (begin, end) in state.ranges.items()}
            wanted.append(NewRecords(table, state.topic_id, ranges))
        self.merge(wanted)
        for records in wanted:
            self._read[records.table] = {p: end for p, (_, end) in records.ranges.items()}

    @abstractmethod
    def merge(self, wanted: Sequence[NewRecords]) -> None:
        """These records into their tables."""

    @abstractmethod
    def totals(self, table: PeerTable) -> tuple[int, int]:
        """Rows of the table, and the sum of their balances."""

    def cpu(self) -> float:
        """CPU seconds of all that works for it so far."""
        return sum(os.times()[:2])
