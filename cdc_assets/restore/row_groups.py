"""A table's backup as files of bronze: some batches each, in their order, and what bronze's commits would say of them.

Every group is known by what it follows and what it is made of, so that a restore that was killed goes on behind its last group
(cdc_assets.restore.kept_groups).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.manifest import BatchPlan, Manifest, ManifestObject
from cdc_assets.restore.backed_up_table import BackedUpTable
from cdc_assets.restore.restore_point import RestorePoint
from spark.delta.topic_commits import CommittedTopic

_RECORDS, _BYTES = 400_000, 16 << 20
"""Of a group, as objects: some 200 MiB of lines, which are in memory twice."""


@dataclass(frozen=True)
class RowGroup:
    """Batches of one epoch; `identity` tells two groups apart that do not follow the same."""

    manifests: tuple[Manifest, ...]
    identity: str

    @property
    def plan(self) -> BatchPlan:
        """Of the last batch, which knows the most."""
        return self.manifests[-1].plan

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """From the first batch's begin to the last one's end."""
        first = self.manifests[0].plan.ranges
        return {p: (first.get(p, (start, end))[0], end) for p, (start, end) in self.plan.ranges.items()}

    @property
    def objects(self) -> list[ManifestObject]:
        """Those of all batches."""
        return [item for manifest in self.manifests for item in manifest.objects]


@dataclass(frozen=True)
class Reached:
    """A table's state behind a group: what is committed then, where it has ended for good, and what was damaged on the way."""

    state: CommittedTopic | None = None
    stopped: frozenset[int] = frozenset()
    damage: tuple[str, ...] = ()
    unknown: int = 0
    """Records of which three columns are not known."""

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        state = self.state.to_dict() if self.state else None
        return {"state": state, "stopped": sorted(self.stopped), "damage": list(self.damage), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reached:
        """From its JSON object."""
        state = CommittedTopic.from_dict(data["state"]) if data["state"] else None
        return cls(state, frozenset(data["stopped"]), tuple(data["damage"]), data["unknown"])


def row_groups(found: BackedUpTable, point: RestorePoint) -> Iterator[RowGroup]:
    """In the order of the batches; none spans two epochs, or two forms of values."""
    identity = f"{found.source}/{found.table} {point.text}"
    held: list[Manifest] = []

    def close_group() -> RowGroup:
        nonlocal identity, held
        digest = hashlib.sha256(identity.encode())
        for manifest in held:
            digest.update(manifest.to_bytes())
        identity = digest.hexdigest()
        group, held = RowGroup(tuple(held), identity), []
        return group

    for manifest in found.manifests:
        if held and (_are_apart(manifest.plan, held[-1].plan) or _is_full([*held, manifest])):
            yield close_group()
        held.append(manifest)
    if held:
        yield close_group()


def _are_apart(one: BatchPlan, other: BatchPlan) -> bool:
    return (one.epoch, one.layout.values) != (other.epoch, other.layout.values)


def _is_full(manifests: list[Manifest]) -> bool:
    size = sum(item.size for manifest in manifests for item in manifest.objects)
    return sum(manifest.records for manifest in manifests) > _RECORDS or size > _BYTES
