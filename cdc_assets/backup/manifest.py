"""The manifest of one batch: what it holds, byte for byte, and how far the backup has come with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_assets.errors import BackupError
from cdc_assets.resources.object_store import ObjectStore

FORMAT = 1


@dataclass(frozen=True)
class ManifestObject:
    """One data object; key relative to the store's prefix."""

    key: str
    size: int
    sha256: str
    md5: str
    records: int
    partition: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True)
class Manifest:
    """One batch of one incarnation of a topic.

    `ranges` are the batch's offsets `{partition: (from, to)}`; `positions` and `records_total` are those of the
    whole backup with this batch, so that the newest manifest alone tells where to go on.
    """

    source: str
    table: str
    topic: str
    topic_id: str
    epoch: int
    ranges: Mapping[int, tuple[int, int]]
    records: int
    by_op: Mapping[str, int]
    objects: tuple[ManifestObject, ...]
    bronze_version: int
    positions: Mapping[int, int]
    records_total: int
    format: int = field(default=FORMAT)

    @property
    def key(self) -> str:
        """Sorts in the order of the batches: each batch moves at least one offset on."""
        start = sum(first for first, _ in self.ranges.values())
        return f"{manifests_prefix(self.source, self.table)}{self.epoch:04d}-{start:020d}.json"

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> Manifest:
        """Read a manifest.

        Raises:
            BackupError: naming the object, when it is none of this format.
        """
        try:
            raw: dict[str, Any] = json.loads(data)
            if raw["format"] != FORMAT:
                raise BackupError(f"{key} has manifest format {raw['format']}, this version reads {FORMAT}")
            return cls(
                **{
                    **raw,
                    "ranges": {int(p): (int(r[0]), int(r[1])) for p, r in raw["ranges"].items()},
                    "positions": {int(p): int(o) for p, o in raw["positions"].items()},
                    "objects": tuple(ManifestObject(**item) for item in raw["objects"]),
                }
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BackupError(f"{key} is no manifest: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class BackupPosition:
    """How far the backup of a table has come; `epoch` -1: there is none."""

    epoch: int = -1
    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    records: int = 0


def table_prefix(source: str, table: str) -> str:
    """Everything of one table."""
    return f"{source}/{table}/"


def manifests_prefix(source: str, table: str) -> str:
    """The table's manifests."""
    return f"{table_prefix(source, table)}_manifests/"


def backup_position(store: ObjectStore, *, source: str, table: str) -> BackupPosition:
    """Where the backup stands: one listing and one small read."""
    keys = [item.key for item in store.list(manifests_prefix(source, table))]
    if not keys:
        return BackupPosition()
    newest = max(keys)
    manifest = Manifest.from_bytes(store.get(newest), key=newest)
    return BackupPosition(manifest.epoch, manifest.topic_id, manifest.positions, manifest.records_total)
