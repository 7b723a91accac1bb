"""Compares a table's manifests with its objects and with bronze; names every difference.

One listing and the manifests are read. An object whose listed MD5 is not the manifest's is read again before it is
reported, since some stores do not list an MD5 of the content (S3 with KMS). `deep` reads every object again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_assets.backup.manifest import Manifest, ManifestObject, manifests_prefix, table_prefix
from cdc_assets.errors import BackupError, StoreError
from cdc_assets.resources.delta_log import bronze_rows_below
from cdc_assets.resources.object_store import ObjectStore, StoredObject


@dataclass(frozen=True)
class VerifyReport:
    """What the manifests hold and what is wrong with it (empty: nothing)."""

    manifests: int
    objects: int
    records: int
    differences: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No difference."""
        return not self.differences


def verify_backup(store: ObjectStore, *, source: str, table: str, bronze_path: str, deep: bool = False) -> VerifyReport:
    """Check one table's backup.

    Raises:
        StoreError: when the store cannot be asked.
    """
    folder = manifests_prefix(source, table)
    listed = {item.key: item for item in store.list(table_prefix(source, table))}
    manifests: list[Manifest] = []
    differences: list[str] = []
    for key in sorted(key for key in listed if key.startswith(folder)):
        try:
            manifests.append(Manifest.from_bytes(store.get(key), key=key))
        except BackupError as error:
            differences.append(str(error))
    differences.extend(_gaps(manifests))
    named = {item.key for manifest in manifests for item in manifest.objects}
    for manifest in manifests:
        for item in manifest.objects:
            difference = _object_difference(store, item, listed.get(item.key), deep=deep)
            if difference:
                differences.append(difference)
    # What a batch in the making has written lies behind the newest manifest; anything else is a stray.
    for key in sorted(set(listed) - named):
        if not key.startswith(folder) and not _in_the_making(key, manifests):
            differences.append(f"{key} is in no manifest")
    differences.extend(_against_bronze(manifests, bronze_path))
    return VerifyReport(len(manifests), len(named), sum(m.records for m in manifests), tuple(differences))


def _gaps(manifests: list[Manifest]) -> Iterator[str]:
    at: dict[int, int] = {}
    epoch = -1
    total = 0
    for manifest in manifests:
        if manifest.epoch != epoch:
            at, epoch = {}, manifest.epoch
        for partition, (start, _) in manifest.ranges.items():
            expected = at.get(partition, start)
            if start != expected:
                kind = "gap" if start > expected else "overlap"
                yield f"{manifest.key}: {kind} in partition {partition}: begins at {start}, the one before ended at {expected}"
        at.update({p: end for p, (_, end) in manifest.ranges.items()})
        total += manifest.records
        if sum(item.records for item in manifest.objects) != manifest.records or total != manifest.records_total:
            yield f"{manifest.key}: its counts do not add up: {manifest.records_total} in all, {total} counted"


def _object_difference(store: ObjectStore, item: ManifestObject, found: StoredObject | None, *, deep: bool) -> str | None:
    if found is None:
        return f"{item.key} is missing ({item.records} records, offsets {item.min_offset} to {item.max_offset})"
    if found.size != item.size:
        return f"{item.key} has {found.size} bytes, its manifest says {item.size}"
    if not deep and found.md5 == item.md5:
        return None
    try:
        content = store.get(item.key)
    except StoreError as error:
        return f"{item.key} cannot be read: {error}"
    if hashlib.sha256(content).hexdigest() != item.sha256:
        return f"{item.key} has another content than its manifest says (sha256)"
    return None


def _in_the_making(key: str, manifests: list[Manifest]) -> bool:
    """Does an object begin at or behind the newest position of its partition?"""
    parts = key.rsplit("/", 1)[-1].removesuffix(".json.gz").rsplit("+", 3)
    if len(parts) != 4 or not all(part.isdigit() for part in parts[1:]):
        return False
    epoch, partition, offset = (int(part) for part in parts[1:])
    if not manifests or epoch > manifests[-1].epoch:
        return True
    return epoch == manifests[-1].epoch and offset >= manifests[-1].positions.get(partition, 0)


def _against_bronze(manifests: list[Manifest], bronze_path: str) -> Iterator[str]:
    if not manifests:
        return
    newest = manifests[-1]
    saved = sum(m.records for m in manifests if m.epoch == newest.epoch)
    rows = bronze_rows_below(bronze_path, newest.topic, newest.positions)
    if rows != saved:
        place = f"{newest.source}/{newest.table} up to {dict(newest.positions)}"
        yield f"{place}: {saved} records in the backup, {rows} rows in bronze"
