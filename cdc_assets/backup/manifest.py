"""The documents of a batch: its plan, written before its objects, and its manifest, written after them.

The plan fixes the offsets of the batch. Whoever finds one (after a crash, or because another backup of the table is at
work at the same time) makes exactly that batch, so that all of them write the same bytes under the same keys.

Format 2: lines have all of bronze's columns, and a plan has what bronze's commits know of its topic. Format 3: a manifest names
the digest of the one before it. Format 4 names a layout; what has the default one stays in format 3. All four are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_assets.backup.layout import Ranges, batch_name, epoch_key, manifests_prefix, plans_prefix
from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets.errors import BackupError
from spark.delta.topic_commits import CommittedTopic

FORMAT = 4
_DEFAULT_LAYOUT_FORMAT = 3
_READ = (1, 2, _DEFAULT_LAYOUT_FORMAT, FORMAT)
_FACTS = ("snapshots", "openings", "schema_ids")


@dataclass(frozen=True)
class BatchPlan:
    """Which records a batch holds: `ranges` are its offsets `{partition: (from, to)}`.

    `complete` says that it ends where bronze ended at `bronze_version`. `facts` are those of its topic there that its rows do not
    tell (spark.delta.topic_commits: snapshots, openings, schema_ids); empty for an epoch that had ended. `bronze_id` is the
    table's: of one that was restored the versions begin again.
    """

    source: str
    table: str
    topic: str
    topic_id: str
    epoch: int
    ranges: Ranges
    bronze_version: int
    complete: bool
    facts: Mapping[str, Any] = field(default_factory=dict)
    bronze_id: str = ""
    layout: ObjectLayout = field(default_factory=ObjectLayout)

    @property
    def key(self) -> str:
        """The plan's key in the object store."""
        return plans_prefix(self.source, self.table) + batch_name(self.epoch, self.ranges)

    @property
    def manifest_key(self) -> str:
        """The object of its manifest."""
        return manifests_prefix(self.source, self.table) + batch_name(self.epoch, self.ranges)

    @property
    def epoch_key(self) -> str:
        """The object that tells of its epoch before there is a batch of it."""
        return epoch_key(self.source, self.table, self.epoch)

    def to_bytes(self) -> bytes:
        """Canonical JSON: equal plans have equal bytes."""
        return _dump("plan", asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> BatchPlan:
        """Read a plan.

        Raises:
            BackupError: naming the object, when it is none of this format.
        """
        raw = _load("plan", data, key)
        try:
            return _plan(raw)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{key} is no plan: {type(error).__name__}: {error}") from error


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

    `positions`, `epoch_records` and `records_total` are those of the whole backup with this batch, so that the newest
    manifest alone tells where to go on. `previous` is the `digest` of the manifest before it, empty for the first and in
    formats 1 and 2. `digest` is the SHA-256 of this one's bytes as they were read from the store.
    """

    plan: BatchPlan
    records: int
    by_op: Mapping[str, int]
    objects: tuple[ManifestObject, ...]
    positions: Mapping[int, int]
    epoch_records: int
    records_total: int
    previous: str = ""
    digest: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The manifest's key in the object store."""
        return self.plan.manifest_key

    @property
    def sha256(self) -> str:
        """Of its bytes, as they were read, else as they are written."""
        return self.digest or hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Canonical JSON; the plan's fields are the manifest's own."""
        document = asdict(self)
        del document["digest"]
        return _dump("manifest", {**document.pop("plan"), **document})

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> Manifest:
        """Read a manifest.

        Raises:
            BackupError: naming the object, when it is none of this format, or lies under another one's key.
        """
        raw = _load("manifest", data, key)
        try:
            own = {name: raw.pop(name) for name in ("records", "by_op", "objects", "positions", "epoch_records", "records_total")}
            previous = raw.pop("previous", "")
            manifest = cls(
                **{
                    **own,
                    "plan": _plan(raw),
                    "positions": {int(p): int(o) for p, o in own["positions"].items()},
                    "objects": tuple(ManifestObject(**item) for item in own["objects"]),
                    "previous": str(previous),
                    "digest": hashlib.sha256(data).hexdigest(),
                }
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{key} is no manifest: {type(error).__name__}: {error}") from error
        if manifest.key != key:
            raise BackupError(f"{key} holds the manifest of {manifest.key}")
        return manifest


def facts_of(state: CommittedTopic) -> dict[str, Any]:
    """What bronze's commits know of a topic, and its rows do not tell."""
    told = state.to_dict()
    return {name: told[name] for name in _FACTS if told.get(name)}


def _plan(raw: Mapping[str, Any]) -> BatchPlan:
    return BatchPlan(**{**raw, "ranges": _ranges(raw["ranges"]), "layout": ObjectLayout(**raw.get("layout", {}))})


def _ranges(raw: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    return {int(p): (int(first), int(end)) for p, (first, end) in raw.items()}


def _dump(kind: str, document: dict[str, Any]) -> bytes:
    version = FORMAT
    if document["layout"] == asdict(ObjectLayout()):
        del document["layout"]
        version = _DEFAULT_LAYOUT_FORMAT
    return json.dumps({"cdc_assets": version, "kind": kind, **document}, sort_keys=True, separators=(",", ":")).encode()


def _load(kind: str, data: bytes, key: str) -> dict[str, Any]:
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BackupError(f"{key} is no {kind}: {error}") from error
    if not isinstance(raw, dict) or raw.pop("kind", None) != kind:
        raise BackupError(f"{key} is no {kind} of a backup")
    version = raw.pop("cdc_assets", None)
    if version not in _READ:
        raise BackupError(f"{key} has {kind} format {version}, this version reads up to {FORMAT}: upgrade it")
    return raw
