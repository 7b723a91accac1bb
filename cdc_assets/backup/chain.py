"""The manifests of a table as a chain: what is wrong where one is gone, was written again, or does not go on behind others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc_assets.backup.backup_base import BackupBase
from cdc_assets.backup.manifest import Manifest
from cdc_assets.quantity import quantity


@dataclass(frozen=True)
class _Link:
    """What the next manifest has to name: the object, its digest, and whether it names one itself."""

    key: str = ""
    digest: str = ""
    is_linked: bool = False


def chain_differences(manifests: Sequence[Manifest], base: BackupBase | None = None) -> Iterator[str]:
    """Each manifest names the one before it, begins where that ended, and its totals are theirs and its own. The first one
    does so with the base, where there is one."""
    at: dict[int, int] = dict(base.positions) if base else {}
    epoch, epoch_records, total, topic_id = -1, 0, base.records_total if base else 0, base.topic_id if base else ""
    before = _Link(base.key, base.previous, base.linked) if base else _Link()
    if base and (not manifests or manifests[0].plan.epoch != base.epoch):
        begins = f"epoch {manifests[0].plan.epoch}" if manifests else "none"
        yield f"{base.key}: the first manifest is to be of epoch {base.epoch}, there is {begins}"
    for manifest in manifests:
        if manifest.plan.epoch != epoch:
            # Of the same topic an epoch begins where the one before it ended; behind a hole at 0, as that of another topic.
            goes_on = manifest.plan.topic_id == topic_id and any(start for start, _ in manifest.plan.ranges.values())
            at = at if goes_on else {}
            epoch, epoch_records, topic_id = manifest.plan.epoch, 0, manifest.plan.topic_id
        found = [*_begin_differences(manifest, at), *_count_differences(manifest)]
        at.update({p: end for p, (_, end) in manifest.plan.ranges.items()})
        epoch_records, total = epoch_records + manifest.records, total + manifest.records
        said = (dict(manifest.positions), manifest.epoch_records, manifest.records_total)
        if said != (at, epoch_records, total):
            found.append(
                f"{manifest.key}: the backup up to here has {quantity(total, 'record')} and ends at {at}, "
                f"it says {manifest.records_total} and {dict(manifest.positions)}"
            )
            # Go on from what it says: one manifest that is gone is one difference, not one for each after it.
            epoch_records, total = manifest.epoch_records, manifest.records_total
        yield from found or _link_differences(before, manifest)
        before = _Link(manifest.key, manifest.digest, bool(manifest.previous))


def _begin_differences(manifest: Manifest, at: Mapping[int, int]) -> Iterator[str]:
    for partition, (start, _) in manifest.plan.ranges.items():
        expected = at.get(partition, 0)
        if start != expected:
            kind = "gap" if start > expected else "overlap"
            ended = f"it begins at offset {start}, the one before ended at {expected}"
            yield f"{manifest.key}: {kind} in partition {partition}: {ended}"


def _count_differences(manifest: Manifest) -> Iterator[str]:
    counted = sum(item.records for item in manifest.objects)
    if counted != manifest.records or sum(manifest.by_op.values()) != manifest.records:
        kinds = f"by kind {dict(manifest.by_op)}"
        yield f"{manifest.key}: {quantity(manifest.records, 'record')}, {counted} in its objects, {kinds}"


def _link_differences(before: _Link, manifest: Manifest) -> Iterator[str]:
    """Manifests of earlier formats name none before them, until the first that does."""
    if manifest.previous != before.digest and (manifest.previous or before.is_linked):
        named = f"sha256 {manifest.previous}" if manifest.previous else "none"
        lies = f"{before.key} has sha256 {before.digest}" if before.key else "none lies there"
        yield f"{manifest.key}: the manifest before it is another than when it was written: it names {named}, {lies}"
