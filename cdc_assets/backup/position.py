"""How far a table's backup has come: what its newest manifest says, found without listing all of them.

`_newest` names a manifest; only those after it are listed. It is a cache: one that is lost, or older than the truth,
costs a longer listing, and one that names a manifest which is gone is not believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_assets.backup.layout import is_batch_name, manifests_prefix, newest_key
from cdc_assets.backup.manifest import Manifest
from cdc_assets.errors import BackupError
from cdc_assets.quantity import quantity
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.object_store.errors import MissingObjectError
from spark.delta.floor import Floor


@dataclass(frozen=True)
class BackupPosition:
    """How far the backup of a table has come; `epoch` -1: there is none.

    `positions` and `records` are those of the epoch, `records_total` counts all epochs. `bronze_version` is None
    where bronze had more at that version than the backup holds. `digest` is the newest manifest's.
    """

    epoch: int = -1
    topic: str = ""
    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    records_total: int = 0
    bronze_version: int | None = None
    bronze_id: str = ""
    digest: str = ""

    @classmethod
    def after(cls, manifest: Manifest) -> BackupPosition:
        """Where the backup stands with this manifest as its newest."""
        plan = manifest.plan
        return cls(
            epoch=plan.epoch,
            topic=plan.topic,
            topic_id=plan.topic_id,
            positions=manifest.positions,
            records=manifest.epoch_records,
            records_total=manifest.records_total,
            bronze_version=plan.bronze_version if plan.complete else None,
            bronze_id=plan.bronze_id,
            digest=manifest.digest or hashlib.sha256(manifest.to_bytes()).hexdigest(),
        )

    def version_of(self, bronze_id: str) -> int | None:
        """The version of that bronze up to which the backup has all; None where nobody knows, or it is another bronze."""
        return self.bronze_version if self.bronze_id == bronze_id else None


def backup_position(store: ObjectStore, *, source: str, table: str) -> BackupPosition:
    """Where the backup stands: three small requests, however many manifests there are.

    Raises:
        BackupError: when the newest manifest cannot be read.
        StoreError: when the store cannot be asked.
    """
    key = _newest(store, source, table)
    if key is None:
        return BackupPosition()
    return BackupPosition.after(Manifest.from_bytes(store.get(key), key=key))


def refuse_expired(floor: Floor | None, at: BackupPosition, place: str) -> None:
    """A backup that ends before what bronze has no more would have a hole: only an earlier one has these records.

    Raises:
        BackupError: saying where it ends.
    """
    if floor is None or floor.is_within(at.epoch, at.positions):
        return
    ends = f"ends at epoch {at.epoch}, offsets {dict(at.positions)}" if at.epoch >= 0 else "is empty"
    raise BackupError(
        f"{place} {ends}, and bronze has given its first {quantity(floor.records, 'record')} (up to epoch {floor.epoch}, offsets "
        f"{dict(floor.positions)}) to an earlier backup, which alone has them: go on in that store and prefix (backup: in the "
        "source's file), or copy its objects here first"
    )


def remember_newest(store: ObjectStore, manifest: Manifest) -> None:
    """Let the next look begin here."""
    store.put(newest_key(manifest.plan.source, manifest.plan.table), manifest.key.rsplit("/", 1)[-1].encode())


def _newest(store: ObjectStore, source: str, table: str) -> str | None:
    folder = manifests_prefix(source, table)
    try:
        name = store.get(newest_key(source, table)).decode(errors="replace")
    except MissingObjectError:
        name = ""
    if is_batch_name(name):
        # Listed from just before it, so that the listing itself shows whether it is still there.
        found = _manifests(store, folder, after=folder + name[:-1])
        if folder + name in found:
            return max(found)
    return max(_manifests(store, folder), default=None)


def _manifests(store: ObjectStore, folder: str, *, after: str = "") -> list[str]:
    return [item.key for item in store.list(folder, after=after) if is_batch_name(item.key.removeprefix(folder))]
