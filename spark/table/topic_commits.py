"""What a log says about one topic: the share of one append (TopicCommit), and the sum of all shares (CommittedTopic).

Pure data that travels as JSON in commit metadata; keys of partitions are numbers here and text there. Counts and
positions are those of one epoch: a higher epoch starts from nothing, a lower one no longer counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Protocol

SchemaIds = dict[str, list[int]]
"""Ids of the schemas that occur, of `key` and `value`."""

_OPENINGS = 8


@dataclass(frozen=True)
class Past:
    """An epoch that has ended: per partition the offset where it did, and the records that it holds.

    `topic_id` is named by the first epoch of a topic, or behind a hole; None: it went on where the one before it ended.
    """

    epoch: int
    positions: dict[int, int]
    records: int
    topic_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        data = {"epoch": self.epoch, "positions": _text_keys(self.positions), "records": self.records}
        return data if self.topic_id is None else {**data, "topic_id": self.topic_id}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Past:
        """From its JSON object."""
        return cls(data["epoch"], _int_keys(data["positions"]), data["records"], data.get("topic_id"))


class CopiedPart(Protocol):
    """What silver, a history or a backup has of a topic: so many records of this epoch; -1: there is none."""

    @property
    def epoch(self) -> int:
        """The epoch that it has records of, the newest."""

    @property
    def records(self) -> int:
        """How many of that epoch."""


@dataclass(frozen=True)
class TopicFacts:
    """What both say of one incarnation of one topic."""

    table: str
    topic_id: str
    epoch: int
    _: KW_ONLY
    records: int = 0
    by_op: dict[str, int] = field(default_factory=dict)
    max_position: dict[int, str] = field(default_factory=dict)
    last_position: dict[int, str] = field(default_factory=dict)
    """Per partition, the position of its last event: below `max_position` while a replay goes on."""
    snapshots: dict[int, int] = field(default_factory=dict)
    """Per partition, the LSN of the newest initial snapshot seen: see spark.events.postgresql_positions."""
    openings: dict[int, dict[str, int]] = field(default_factory=dict)
    """Per partition, the newest transactions without a last commit and the snapshot before each (spark.bronze.batch_records)."""
    schema_ids: SchemaIds | None = None
    """All that occur; None where that is not known, or where records are not framed."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "table": self.table,
            "topic_id": self.topic_id,
            "epoch": self.epoch,
            "records": self.records,
            "by_op": dict(self.by_op),
            "max_position": _text_keys(self.max_position),
            "last_position": _text_keys(self.last_position),
            "snapshots": _text_keys(self.snapshots),
            **({"openings": _text_keys(self.openings)} if self.openings else {}),
            **({} if self.schema_ids is None else {"schema_ids": self.schema_ids}),
        }


def _facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same from a JSON object, as arguments."""
    return {
        **{name: data[name] for name in ("table", "topic_id", "epoch", "records")},
        "by_op": dict(data["by_op"]),
        **{name: _int_keys(data[name]) for name in ("max_position", "last_position", "snapshots")},
        "openings": _int_keys(data.get("openings", {})),
        "schema_ids": data.get("schema_ids"),
    }


@dataclass(frozen=True)
class CommittedTopic(TopicFacts):
    """What a log has committed of one incarnation of one topic; the schemas are those of earlier incarnations too."""

    positions: dict[int, int]
    _: KW_ONLY
    earlier: tuple[Past, ...] = ()
    """The epochs before this one that ended in the same topic where the next began, oldest first: its source became
    another one. Empty where the epoch began with another topic, or behind a hole."""
    before: tuple[Past, ...] = ()
    """The epochs before those: of topics that were made again since, or in front of a hole. Oldest first."""

    @property
    def all_records(self) -> int:
        """Records of all epochs that are known."""
        return self.topic_records + sum(past.records for past in self.before)

    def records_from(self, epoch: int) -> int:
        """Records of that epoch and those after it."""
        ended = sum(past.records for past in (*self.before, *self.earlier) if past.epoch >= epoch)
        return ended + (self.records if self.epoch >= epoch else 0)

    @property
    def topic_epoch(self) -> int:
        """The first epoch of which the records are in this topic."""
        return self.earlier[0].epoch if self.earlier else self.epoch

    @property
    def topic_records(self) -> int:
        """Records of all epochs in this topic."""
        return self.records + sum(past.records for past in self.earlier)

    def records_ahead_of(self, copy: CopiedPart | None) -> int:
        """How many of these records a copy lacks. Counts of two epochs are never compared.

        None is a table that was never folded: it needs this epoch only, which takes away what was before. A backup keeps
        all epochs, so one of epoch -1 lacks the records of all.
        """
        if copy is None:
            return self.records
        if copy.epoch >= self.epoch:
            return self.records - copy.records if copy.epoch == self.epoch else 0
        ended = sum(past.records for past in (*self.before, *self.earlier) if past.epoch >= copy.epoch)
        return self.records + max(0, ended - copy.records)

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            **super().to_dict(),
            "positions": _text_keys(self.positions),
            **({"earlier": [past.to_dict() for past in self.earlier]} if self.earlier else {}),
            **({"before": [past.to_dict() for past in self.before]} if self.before else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CommittedTopic:
        """From its JSON object."""
        earlier, before = (tuple(Past.from_dict(past) for past in data.get(name, ())) for name in ("earlier", "before"))
        return cls(positions=_int_keys(data["positions"]), **_facts(data), earlier=earlier, before=before)


@dataclass(frozen=True)
class TopicCommit(TopicFacts):
    """One append's share of one topic: ranges `[from, to)` per partition and what they held."""

    ranges: dict[int, tuple[int, int]]
    _: KW_ONLY
    min_timestamp: int | None = None
    """Lowest Kafka timestamp (microseconds) among the records: lets a reader skip files by their statistics."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        ranges = {str(p): list(r) for p, r in sorted(self.ranges.items())}
        return {**super().to_dict(), "ranges": ranges, "min_timestamp": self.min_timestamp}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TopicCommit:
        """From its JSON object."""
        ranges = {int(p): (r[0], r[1]) for p, r in data["ranges"].items()}
        return cls(ranges=ranges, min_timestamp=data["min_timestamp"], **_facts(data))

    def after(self, state: CommittedTopic | None) -> CommittedTopic:
        """The topic's state once this append is added to it."""
        ids = merge_ids([{} if state is None else state.schema_ids, self.schema_ids])
        if state is None:
            state = CommittedTopic(self.table, self.topic_id, self.epoch, {})
        elif self.epoch > state.epoch:
            state = self._open_epoch(state)
        elif self.epoch < state.epoch:
            return state
        return replace(
            state,
            positions=_highest(state.positions, {p: r[1] for p, r in self.ranges.items()}),
            records=state.records + self.records,
            by_op=dict(Counter(state.by_op) + Counter(self.by_op)),
            max_position=_highest(state.max_position, self.max_position),
            last_position={**state.last_position, **self.last_position},
            snapshots=_highest(state.snapshots, self.snapshots),
            openings={
                **state.openings,
                **{p: _merge_openings(state.openings.get(p, {}), new) for p, new in self.openings.items()},
            },
            schema_ids=ids,
        )

    def _open_epoch(self, state: CommittedTopic) -> CommittedTopic:
        """The new epoch, still empty, and those before it."""
        ended = (*state.earlier, Past(state.epoch, state.positions, state.records))
        if self._continues(state):
            return CommittedTopic(self.table, self.topic_id, self.epoch, {}, earlier=ended, before=state.before)
        first = replace(ended[0], topic_id=state.topic_id)
        return CommittedTopic(self.table, self.topic_id, self.epoch, {}, before=(*state.before, first, *ended[1:]))

    def _continues(self, state: CommittedTopic) -> bool:
        """Whether this epoch begins in the same topic where the last one ended, and not in another, or behind a hole."""
        if self.topic_id != state.topic_id:
            return False
        return all(self.ranges.get(p, (end, end))[0] == end for p, end in state.positions.items())


def all_schema_ids(states: Iterable[CommittedTopic]) -> SchemaIds | None:
    """Those of several topics; None where one of them does not tell."""
    return merge_ids([state.schema_ids for state in states])


def merge_ids(of_topics: Sequence[SchemaIds | None]) -> SchemaIds | None:
    """All of them; None where one is not known."""
    id_sets = [ids for ids in of_topics if ids is not None]
    if not id_sets or len(id_sets) < len(of_topics):
        return None
    return {side: sorted({i for ids in id_sets for i in ids.get(side, ())}) for side in ("key", "value")}


def _merge_openings(known: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """What was known first holds; those behind the newest snapshots are kept."""
    merged = {**new, **known}
    return {tx: merged[tx] for tx in sorted(merged, key=lambda tx: -merged[tx])[:_OPENINGS]}


def _highest(left: Mapping[int, Any], right: Mapping[int, Any]) -> dict[int, Any]:
    return {p: max(v for v in (left.get(p), right.get(p)) if v is not None) for p in sorted({*left, *right})}


def _text_keys(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(p): v for p, v in sorted(values.items())}


def _int_keys(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(p): v for p, v in values.items()}
