"""What the backup has of a table: its manifests in their order, its epochs, and what of it is damaged as far as a listing tells.

A manifest is somebody's text in a bucket: it names objects of its own table only, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cdc_assets.backup.backup_end import BackupListing, earlier_ends, plans_without_manifest, read_plan
from cdc_assets.backup.backup_position import BackupPosition
from cdc_assets.backup.manifest import BatchPlan, Manifest, ManifestObject
from cdc_assets.backup.manifest_chain import BackupBase, chain_differences, find_base, is_gone
from cdc_assets.backup.object_layout import (
    is_batch_name,
    is_epoch_key,
    manifests_prefix,
    object_name,
    parse_object_name,
    table_prefix,
)
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.registry.errors import BackupError, StoreError
from spark.errors import quantity

READERS = 8


@dataclass(frozen=True)
class BackedUpTable:
    """`manifests` in the order of their batches; `epochs` those without a record, each as a plan that holds nothing.

    `broken` are the objects of manifests that cannot be as they say; `torn` is what is wrong with the manifests themselves.
    `base`: of what was before it nothing is kept.
    """

    source: str
    table: str
    manifests: tuple[Manifest, ...] = ()
    epochs: tuple[BatchPlan, ...] = ()
    unfinished: tuple[str, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    torn: tuple[str, ...] = ()
    base: BackupBase | None = None

    @property
    def records(self) -> int:
        """Those of all manifests."""
        return sum(manifest.records for manifest in self.manifests)

    @property
    def objects(self) -> int:
        """How many the manifests name."""
        return sum(len(manifest.objects) for manifest in self.manifests)

    @property
    def bytes(self) -> int:
        """Those of all objects."""
        return sum(item.size for manifest in self.manifests for item in manifest.objects)

    def holds(self, epoch: int, positions: Mapping[int, int], records: int) -> bool:
        """Whether it has all records of an epoch up to these positions, `records` of them, and knows of the epoch."""
        ends = {plan.epoch: BackupPosition(plan.epoch) for plan in self.epochs}
        ends |= {manifest.plan.epoch: BackupPosition.after(manifest) for manifest in self.manifests}
        return epoch in ends and ends[epoch].holds(epoch, positions, records)

    @property
    def damage(self) -> tuple[str, ...]:
        """Sentences, each with the object that it is about."""
        return (*self.torn, *(f"{key} {reason}" for key, reason in self.broken))


def find_backup(store: ObjectStore, source: str, table: str) -> BackedUpTable:
    """By one listing, and all of its manifests.

    Raises:
        StoreError: the store cannot be asked.
    """
    earlier = earlier_ends(store, source, table)
    all_listed = {item.key: item for item in store.list(table_prefix(source, table))}
    base = _base(store, source, table, all_listed)
    whole_base = None if isinstance(base, str) else base
    listed = {key: item for key, item in all_listed.items() if not is_gone(whole_base, key)}
    folder = manifests_prefix(source, table)
    keys = sorted(key for key in listed if key.startswith(folder) and is_batch_name(key.removeprefix(folder)))
    with ThreadPoolExecutor(READERS) as pool:
        read = list(pool.map(lambda key: _manifest(store, key, source, table), keys))
    manifests = tuple(manifest for manifest in read if isinstance(manifest, Manifest))
    epochs = [read_plan(store, key) for key in sorted(listed) if is_epoch_key(key)]
    by_key = dict(zip(keys, read, strict=True))
    plans = plans_without_manifest(store, source, table, listed, by_key)
    listing = BackupListing(
        store, source, table, all_listed, listed, by_key, lambda item: store.get(item.key), earlier, plans, whole_base
    )
    return BackedUpTable(
        source,
        table,
        manifests,
        tuple(epoch for epoch in epochs if isinstance(epoch, BatchPlan)),
        unfinished=tuple(plans),
        broken=tuple(_broken(manifests, listed)),
        torn=(
            *(text for text in (base, *read, *epochs) if isinstance(text, str)),
            *chain_differences(manifests, whole_base),
            *listing.differences(),
        ),
        base=whole_base,
    )


def drop_unfinished(store: ObjectStore, found: BackedUpTable) -> None:
    """Plans of batches that were never finished go: the bronze that they were made of is gone."""
    for key in found.unfinished:
        store.delete(key)


def _base(store: ObjectStore, source: str, table: str, listed: Mapping[str, StoredObject]) -> BackupBase | str | None:
    try:
        return find_base(store, source, table, listed)
    except (BackupError, StoreError) as error:
        return str(error)


def _manifest(store: ObjectStore, key: str, source: str, table: str) -> Manifest | str:
    try:
        manifest = Manifest.from_bytes(store.get(key), key=key)
    except (BackupError, StoreError) as error:
        return str(error)
    if (manifest.plan.source, manifest.plan.table) != (source, table):
        return f"{key} is of {manifest.plan.source}/{manifest.plan.table}"
    return manifest


def _broken(manifests: tuple[Manifest, ...], listed: Mapping[str, StoredObject]) -> Iterator[tuple[str, str]]:
    for manifest in manifests:
        for item in manifest.objects:
            if not _is_own(manifest.plan, item):
                yield item.key, f"is none of {manifest.plan.source}/{manifest.plan.table}: {manifest.key} names it"
            elif item.key not in listed:
                yield item.key, "is missing"
            elif listed[item.key].size != item.size:
                yield item.key, f"has {quantity(listed[item.key].size, 'byte')}, {manifest.key} says {item.size}"


def _is_own(plan: BatchPlan, item: ManifestObject) -> bool:
    # A manifest is somebody's text: it may name any key. Only one below the table's prefix, by the name of such an object, is
    # read.
    folder, name = table_prefix(plan.source, plan.table), item.key.rsplit("/", 1)[-1]
    first = parse_object_name(item.key)
    own = name == object_name(plan.topic, plan.epoch, item.partition, item.min_offset) and first is not None
    return own and item.key.startswith(folder) and not {"", ".", ".."} & set(item.key.split("/"))
