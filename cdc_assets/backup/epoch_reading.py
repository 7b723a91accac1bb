"""Where the reading of the whole table ends with which an epoch begins: at the latest where its topic ended once it had begun.

    <source>/<table>/_readings/<epoch>.json    written once, by whoever saw first that the backup has records of the epoch

Bronze begins an epoch only when the reading is in the lake's topic (cdc_assets.bronze.reload, cdc_assets.failover.opening). So a
backup that has come to that end has all of the reading. No record tells: tables are read by chunks as well, whose rows stand
between others, and a quiet partition gets nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.backup.layout import reading_key
from cdc_assets.backup.platform.document import canonical_json
from cdc_assets.errors import BackupError
from cdc_assets.resources.object_store import ObjectStore

FORMAT = 1


@dataclass(frozen=True)
class EpochReading:
    """Of one epoch: by partition the offset before which all of its reading stands, in the topic with this id."""

    source: str
    table: str
    epoch: int
    topic_id: str
    ends: Mapping[int, int]

    @property
    def key(self) -> str:
        """The object that it is."""
        return reading_key(self.source, self.table, self.epoch)

    def is_within(self, positions: Mapping[int, int]) -> bool:
        """Whether somebody who has come so far has all of it."""
        return all(positions.get(partition, 0) >= end for partition, end in self.ends.items())

    def to_bytes(self) -> bytes:
        """As canonical JSON, always alike."""
        ends = {str(p): end for p, end in sorted(self.ends.items())}
        return canonical_json({"cdc_assets": FORMAT, "kind": "reading", **asdict(self), "ends": ends})

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> EpochReading:
        """Read one.

        Raises:
            BackupError: naming the object, when it is none of this format.
        """
        try:
            raw: dict[str, Any] = json.loads(data)
            kind, version = raw.pop("kind"), raw.pop("cdc_assets")
            found = cls(**{**raw, "ends": {int(p): int(end) for p, end in raw["ends"].items()}})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{key} tells of no reading: {type(error).__name__}: {error}") from error
        if (kind, version) != ("reading", FORMAT) or found.key != key:
            raise BackupError(
                f"{key} holds {kind} of format {version} for {found.key}: upgrade this version, or remove the object"
            )
        return found


def find_reading(store: ObjectStore, source: str, table: str, epoch: int, listed: Collection[str]) -> EpochReading | None:
    """What was noted of an epoch; None: nothing. `listed` are the table's keys.

    Raises:
        BackupError, StoreError: it cannot be read.
    """
    key = reading_key(source, table, epoch)
    return EpochReading.from_bytes(store.get(key), key=key) if key in listed else None


def note_reading(store: ObjectStore, reading: EpochReading) -> EpochReading:
    """Write it, unless somebody has; what holds from now on.

    Raises:
        BackupError, StoreError: it cannot be written, or what is there cannot be read.
    """
    if store.put_if_absent(reading.key, reading.to_bytes()):
        return reading
    return EpochReading.from_bytes(store.get(reading.key), key=reading.key)
