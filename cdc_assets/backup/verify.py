"""Compares a table's manifests with its objects and with bronze; names every difference.

What is read: one listing, and the manifests that were not read before (backup/kept_manifests.py). An object whose listed
MD5 is not the manifest's is read before it is reported, since some stores do not list an MD5 of the content (S3 with KMS,
a folder). `deep` reads every object again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.backup.kept_manifests import KeptManifests
from cdc_assets.backup.layout import (
    columns_key,
    is_batch_name,
    is_epoch_key,
    manifests_prefix,
    newest_key,
    parse_object_name,
    plans_prefix,
    table_prefix,
)
from cdc_assets.backup.manifest import Manifest, ManifestObject
from cdc_assets.errors import BackupError, StoreError
from cdc_assets.quantity import quantity
from cdc_assets.resources.delta_log import bronze_committed, bronze_rows_below
from cdc_assets.resources.object_store import ObjectStore, StoredObject

_READERS = 8


@dataclass(frozen=True)
class VerifyReport:
    """What the manifests hold and what is wrong with it (`differences` is empty: nothing).

    `unfinished` are objects of a batch without a manifest yet: the next backup finishes it. `behind` are records that
    bronze has committed and the backup does not hold yet.
    """

    manifests: int
    objects: int
    records: int
    differences: tuple[str, ...]
    unfinished: tuple[str, ...] = ()
    behind: int = 0

    @property
    def ok(self) -> bool:
        """Whether backup and bronze show no difference."""
        return not self.differences


def verify_backup(
    store: ObjectStore, *, source: str, table: str, bronze_path: str | None, deep: bool = False, kept: Path | None = None
) -> VerifyReport:
    """Check one table's backup; `kept` is a folder for copies of manifests, which `deep` does not look at. Without `bronze_path`
    it is compared with itself alone.

    Raises:
        StoreError: when the store cannot be asked.
    """
    listed = {item.key: item for item in store.list(table_prefix(source, table))}
    folder = manifests_prefix(source, table)
    manifest_keys = sorted(key for key in listed if key.startswith(folder) and is_batch_name(key.removeprefix(folder)))
    with ThreadPoolExecutor(_READERS) as pool:
        copies = KeptManifests(store, None if deep else kept)
        read = list(pool.map(lambda key: _read_manifest(copies, listed[key]), manifest_keys))
        manifests = [manifest for manifest in read if isinstance(manifest, Manifest)]
        differences = [text for text in read if isinstance(text, str)]
        differences.extend(chain_differences(manifests))
        items = [item for manifest in manifests for item in manifest.objects]
        found = pool.map(lambda item: _object_difference(store, item, listed.get(item.key), deep=deep), items)
        differences.extend(text for text in found if text is not None)
    own = {newest_key(source, table), columns_key(source, table)}
    unnamed = sorted(set(listed) - {item.key for item in items} - set(manifest_keys) - own)
    unnamed = [key for key in unnamed if not _is_plan(key, plans_prefix(source, table)) and not is_epoch_key(key)]
    unfinished = [key for key in unnamed if _is_ahead(key, manifests)]
    differences.extend(f"{key} is in no manifest" for key in unnamed if key not in unfinished)
    behind, against_bronze = _against_bronze(f"{source}/{table}", table, manifests, bronze_path) if bronze_path else (0, [])
    return VerifyReport(
        manifests=len(manifests),
        objects=len(items),
        records=sum(m.records for m in manifests),
        differences=(*differences, *against_bronze),
        unfinished=tuple(unfinished),
        behind=behind,
    )


def _read_manifest(copies: KeptManifests, listed: StoredObject) -> Manifest | str:
    try:
        return Manifest.from_bytes(copies.read(listed), key=listed.key)
    except (BackupError, StoreError) as error:
        return str(error)


def chain_differences(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Each manifest names the one before it, begins where that ended, and its totals are theirs and its own."""
    at: dict[int, int] = {}
    epoch, epoch_records, total, topic_id = -1, 0, 0, ""
    before: Manifest | None = None
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
        before = manifest


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


def _link_differences(before: Manifest | None, manifest: Manifest) -> Iterator[str]:
    """Manifests of earlier formats name none before them, until the first that does."""
    digest = before.digest if before else ""
    if manifest.previous != digest and (manifest.previous or (before is not None and before.previous)):
        named = f"sha256 {manifest.previous}" if manifest.previous else "none"
        lies = f"{before.key} has sha256 {digest}" if before else "none lies there"
        yield f"{manifest.key}: the manifest before it is another than when it was written: it names {named}, {lies}"


def _object_difference(store: ObjectStore, item: ManifestObject, found: StoredObject | None, *, deep: bool) -> str | None:
    if found is None:
        return f"{item.key} is missing ({quantity(item.records, 'record')}, offsets {item.min_offset} to {item.max_offset})"
    if found.size != item.size:
        return f"{item.key} has {quantity(found.size, 'byte')}, its manifest says {item.size}"
    if not deep and found.md5 == item.md5:
        return None
    try:
        content = store.get(item.key)
    except StoreError as error:
        return f"{item.key} cannot be read: {error}"
    digest = hashlib.sha256(content).hexdigest()
    if digest != item.sha256:
        return f"{item.key} has another content than its manifest says: sha256 {digest}, expected {item.sha256}"
    return None


def _is_plan(key: str, folder: str) -> bool:
    return key.startswith(folder) and is_batch_name(key.removeprefix(folder))


def _is_ahead(key: str, manifests: list[Manifest]) -> bool:
    """Does an object begin at or behind the newest position of its partition?"""
    place = parse_object_name(key)
    if place is None:
        return False
    epoch, partition, offset = place
    if not manifests or epoch > manifests[-1].plan.epoch:
        return True
    return epoch == manifests[-1].plan.epoch and offset >= manifests[-1].positions.get(partition, 0)


def _against_bronze(what: str, table: str, manifests: list[Manifest], bronze_path: str) -> tuple[int, list[str]]:
    committed = bronze_committed(bronze_path)
    records = sum(state.all_records for state in committed.of_table(table).values()) if committed else 0
    if not manifests:
        return records, []
    newest = manifests[-1]
    last = {manifest.plan.epoch: manifest for manifest in manifests}
    rows = bronze_rows_below(bronze_path, newest.plan.topic, {epoch: m.positions for epoch, m in last.items()})
    held = sum(manifest.epoch_records for manifest in last.values())
    if rows == held:
        return max(0, records - held), []
    text = f"{what}: the backup holds {quantity(held, 'record')} up to {dict(newest.positions)}"
    text += f", bronze has {quantity(rows, 'row')} there"
    return max(0, records - held), [text]
