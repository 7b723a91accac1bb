"""Counts the committed records of a topic by reading them, with a digest of their order and bytes.

`end offset - begin offset` is no count: control records of transactions, aborted records and compaction all
take offsets. A tally is kept per partition and goes on where it stopped, so that each record is read once in
its life. The digest chains over key and value in order: two partitions with equal `(records, digest)` hold the
same records in the same order, which is how a mirror is compared with its origin while both move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.resources.kafka import KafkaCluster, Record

_EMPTY_DIGEST = "0" * 16


@dataclass(frozen=True)
class PartitionTally:
    """`records` committed records lie between `first` and `next_offset`; `digest` is over their keys and values."""

    first: int
    next_offset: int
    records: int = 0
    digest: str = _EMPTY_DIGEST


class _Count:
    """A partition's tally that goes on. One that is made anew for each record, its digest a text, takes twice as long."""

    def __init__(self, begun: PartitionTally) -> None:
        self.first, self.next_offset, self.records = begun.first, begun.next_offset, begun.records
        self._digest = bytes.fromhex(begun.digest)

    def add(self, record: Record) -> None:
        """Take in one more record."""
        told = self._digest
        for part in (record.key, record.value):
            told += b"-" if part is None else b"%d:%b" % (len(part), part)
        self._digest = hashlib.blake2b(told, digest_size=8).digest()
        self.next_offset = record.offset + 1
        self.records += 1

    def tally(self, at_least: int = 0) -> PartitionTally:
        """What it is now; behind the last record an offset may be known that lies further."""
        return PartitionTally(self.first, max(self.next_offset, at_least), self.records, self._digest.hex())


@dataclass(frozen=True)
class TopicTally:
    """The tallies of a topic's partitions, for one incarnation of the topic (its id)."""

    topic: str
    topic_id: str
    partitions: Mapping[int, PartitionTally] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Committed records over all partitions."""
        return sum(tally.records for tally in self.partitions.values())

    def to_json(self) -> dict[str, Any]:
        """The tally as asset metadata keeps it, in JSON."""
        parts = {str(p): [t.first, t.next_offset, t.records, t.digest] for p, t in self.partitions.items()}
        return {"topic": self.topic, "topic_id": self.topic_id, "partitions": parts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TopicTally:
        """The tally that `to_json` wrote into asset metadata."""
        parts = {int(p): PartitionTally(*values) for p, values in data["partitions"].items()}
        return cls(data["topic"], data["topic_id"], parts)


def advance_to_offsets(cluster: KafkaCluster, tally: TopicTally, ends: Mapping[int, int]) -> TopicTally:
    """Count on to the offsets `ends`; every partition in `ends` has a tally already."""
    current = {p: _Count(tally.partitions[p]) for p in ends}
    ranges = {p: (current[p].next_offset, end) for p, end in ends.items()}
    for record in cluster.records(tally.topic, ranges):
        current[record.partition].add(record)
    done = {p: count.tally(ends[p]) for p, count in current.items()}
    return TopicTally(tally.topic, tally.topic_id, {**tally.partitions, **done})


def advance_to_counts(
    cluster: KafkaCluster, tally: TopicTally, ends: Mapping[int, int], *, counts: Mapping[int, int]
) -> TopicTally:
    """Count on until each partition has `counts` records, but not past the offsets `ends`."""
    current = {p: _Count(tally.partitions[p]) for p in ends}
    ranges = {p: (current[p].next_offset, end) for p, end in ends.items() if current[p].records < counts.get(p, 0)}
    for record in cluster.records(tally.topic, ranges):
        if current[record.partition].records < counts[record.partition]:
            current[record.partition].add(record)
    done = {p: count.tally() for p, count in current.items()}
    return TopicTally(tally.topic, tally.topic_id, {**tally.partitions, **done})
