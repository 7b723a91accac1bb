"""What of a table's past is still read: the commits in which we have said what it holds, and versions that somebody names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark.errors import TableStopError, other_format
from spark.table.delta_table import table_of

# Up to where a change log has given its records to the backup: a property of its table, by topic.
#
# What is gone is one prefix of a topic: all records of the epochs before `epoch`, and of that epoch those below its offsets. So
# one pair of epoch and offsets says it, and counts make every sum over the log what it was.
FLOOR, FORMAT = "cdc.bronzeFrom", 1
"""Table property: `{"cdc_assets": FORMAT, "topics": {topic: Floor}}` as JSON."""
CountsByEpoch = Mapping[int, Mapping[int, int]]
"""By epoch and partition."""


@dataclass(frozen=True)
class Floor:
    """Of one topic. `at`: when it rose last, in seconds since 1970.

    `highest` is the highest position that is gone; empty where no record has one.
    """

    table: str
    epoch: int
    positions: Mapping[int, int]
    counts: CountsByEpoch = field(default_factory=dict)
    by_op: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0
    highest: str = ""

    @property
    def records(self) -> int:
        """All that are gone."""
        return self.records_from(0)

    def records_from(self, epoch: int) -> int:
        """Those of that epoch and later ones."""
        return sum(sum(by_partition.values()) for of, by_partition in self.counts.items() if of >= epoch)

    def is_within(self, epoch: int, positions: Mapping[int, int]) -> bool:
        """Whether somebody who has read the topic so far has read all that is gone."""
        if epoch != self.epoch:
            return epoch > self.epoch
        return all(end <= positions.get(partition, 0) for partition, end in self.positions.items())

    def reaches(self, epoch: int, positions: Mapping[int, int]) -> bool:
        """Whether all records of the topic up to there are gone."""
        return Floor("", epoch, positions).is_within(self.epoch, self.positions)

    def count_gone(self, partition: int, *, from_epoch: int = 0) -> int:
        """Records of a partition that are gone, of this epoch and later ones."""
        return sum(by_partition.get(partition, 0) for epoch, by_partition in self.counts.items() if epoch >= from_epoch)

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "table": self.table,
            "epoch": self.epoch,
            "positions": _text_keys(self.positions),
            "counts": {str(epoch): _text_keys(by_partition) for epoch, by_partition in sorted(self.counts.items())},
            "by_op": dict(sorted(self.by_op.items())),
            "at": self.at,
            "highest": self.highest,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Floor:
        """From its JSON object."""
        return cls(
            data["table"],
            int(data["epoch"]),
            _int_keys(data["positions"]),
            {int(epoch): _int_keys(by_partition) for epoch, by_partition in data["counts"].items()},
            {str(op): int(count) for op, count in data["by_op"].items()},
            float(data["at"]),
            str(data["highest"]),
        )


def floors_of(configuration: Mapping[str, str] | None) -> dict[str, Floor]:
    """By topic, from a table's properties; empty where all is there."""
    return parse_floors((configuration or {}).get(FLOOR))


def parse_floors(text: str | None) -> dict[str, Floor]:
    """By topic, from the property's text; empty where there is none.

    Raises:
        TableStopError: the property has another format.
    """
    if not text:
        return {}
    document = json.loads(text)
    if refusal := other_format(f"table property {FLOOR}", "a floor", document.get("cdc_assets"), FORMAT):
        raise TableStopError(refusal)
    return {topic: Floor.from_dict(floor) for topic, floor in document["topics"].items()}


def floors_text(floors: Mapping[str, Floor]) -> str:
    """As it stands in the table's properties, equal floors as equal texts."""
    topics = {topic: floor.to_dict() for topic, floor in sorted(floors.items())}
    return json.dumps({"cdc_assets": FORMAT, "topics": topics}, separators=(",", ":"))


def _text_keys(values: Mapping[int, int]) -> dict[str, int]:
    return {str(key): value for key, value in sorted(values.items())}


def _int_keys(values: Mapping[str, Any]) -> dict[int, int]:
    return {int(key): int(value) for key, value in values.items()}


KIND = "maintenance"
"""The kind of our own commits here: they say nothing of what a table holds."""


@dataclass(frozen=True)
class Need:
    """Somebody reads the table's log from `version` on, and the files that were its own at that version."""

    version: int
    reason: str


@dataclass(frozen=True)
class NamedVersion:
    """Somebody reads the table as it was at this version, and no other old one; `table_id` is Delta's own id of the table, since
    one that was made anew has other versions. Empty: whichever table is there."""

    version: int
    table_id: str
    reason: str


def first_telling(path: str, up_to: int | None = None) -> int | None:
    """From which commit on the log says what the table holds, or held at the version `up_to`, in our metadata; None where it has
    none of ours (a quarantine).
    """
    needed = (_first_needed(version, text) for commits in table_of(path).looks(up_to=up_to) for version, text in commits)
    return next((first for first in needed if first is not None), None)


def _first_needed(version: int, text: str | None) -> int | None:
    """The oldest commit without which this one does not say it all: an append builds on what others had committed."""
    if not text or not text.startswith("{"):
        return None
    try:
        metadata = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(metadata, dict) or "cdc_assets" not in metadata or metadata.get("kind") in (KIND, "restore"):
        return None
    return min(version, int(metadata.get("base_version", version)) + 1)
