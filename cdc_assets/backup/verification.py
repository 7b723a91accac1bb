"""Compares a table's manifests with its objects and with bronze, and names every difference; and what lies below a source's
prefix that nobody of ours has written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.backup.kept_cuts import cuts_prefix
from cdc_assets.backup.manifest import KeptManifests, Manifest, ManifestObject, newest_differences
from cdc_assets.backup.manifest_chain import BackupBase, chain_differences, find_base, is_gone
from cdc_assets.backup.object_layout import (
    columns_key,
    epoch_of_key,
    history_columns_key,
    is_batch_name,
    last_drill_key,
    manifests_prefix,
    newest_key,
    parse_object_name,
    table_prefix,
)
from cdc_assets.backup.platform_log import log_prefix, newest_entry, sections_prefix
from cdc_assets.clients.delta_log import bronze_committed, bronze_rows_below
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.registry.errors import BackupError, StoreError
from spark.errors import quantity

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

    What is read: one listing, and the manifests that were not read before (KeptManifests). An object whose listed
    MD5 is not the manifest's is read before it is reported, since some stores do not list an MD5 of the content (S3 with KMS, a
    folder). `deep` reads every object again.

    Raises:
        StoreError: when the store cannot be asked.
    """
    looked = _Verified(store, source, table, deep, None if deep else kept)
    listed = looked.list_all()
    base, wrong = _read_base(store, source, table, listed)
    return looked.compare(listed, base, wrong, bronze_path)


def verify_from(base: BackupBase, store: ObjectStore, *, bronze_path: str, kept: Path | None = None) -> VerifyReport:
    """The report of a backup that would begin with this base, of whose objects the listing alone is read.

    Raises:
        StoreError: when the store cannot be asked.
    """
    looked = _Verified(store, base.source, base.table, False, kept)
    return looked.compare(looked.list_all(), base, (), bronze_path)


@dataclass(frozen=True)
class _Verified:
    """How one table's backup is read: each object anew (`deep`), or manifests by their copies below `kept`."""

    store: ObjectStore
    source: str
    table: str
    deep: bool
    kept: Path | None

    def list_all(self) -> dict[str, StoredObject]:
        """All that lies below the table's prefix."""
        return {item.key: item for item in self.store.list(table_prefix(self.source, self.table))}

    def compare(
        self, all_listed: Mapping[str, StoredObject], base: BackupBase | None, wrong: tuple[str, ...], bronze_path: str | None
    ) -> VerifyReport:
        """The report of what is listed from the base on; `wrong` are differences that are known by now."""
        listed = {key: item for key, item in all_listed.items() if not is_gone(base, key)}
        folder = manifests_prefix(self.source, self.table)
        keys = sorted(key for key in listed if key.startswith(folder) and is_batch_name(key.removeprefix(folder)))
        with ThreadPoolExecutor(_READERS) as pool:
            copies = KeptManifests(self.store, self.kept)
            read = list(pool.map(lambda key: _read_manifest(copies, listed[key]), keys))
            manifests = [manifest for manifest in read if isinstance(manifest, Manifest)]
            differences = [*wrong, *(text for text in read if isinstance(text, str)), *chain_differences(manifests, base)]
            by_key, of = dict(zip(keys, read, strict=True)), (self.source, self.table)
            differences += newest_differences(self.store, all_listed, by_key, of=of, read=copies.read)
            items = [item for manifest in manifests for item in manifest.objects]
            texts = pool.map(lambda item: _object_difference(self.store, item, listed.get(item.key), deep=self.deep), items)
            differences.extend(text for text in texts if text is not None)
        unnamed = self._nobodys({*listed} - {item.key for item in items} - {*keys})
        unfinished = [key for key in unnamed if _is_ahead(key, manifests)]
        differences.extend(f"{key} is in no manifest" for key in unnamed if key not in unfinished)
        what = f"{self.source}/{self.table}"
        behind, against = _against_bronze(what, self.table, manifests, bronze_path, base) if bronze_path else (0, [])
        return VerifyReport(
            manifests=len(manifests),
            objects=len(items),
            records=sum(m.records for m in manifests),
            differences=(*differences, *against),
            unfinished=tuple(unfinished),
            behind=behind,
        )

    def _nobodys(self, keys: set[str]) -> list[str]:
        others = keys - {key(self.source, self.table) for key in (newest_key, columns_key, history_columns_key)}
        return sorted(key for key in others if key.endswith(".gz") or epoch_of_key(self.source, self.table, key) is None)


def _read_base(
    store: ObjectStore, source: str, table: str, listed: Mapping[str, StoredObject]
) -> tuple[BackupBase | None, tuple[str, ...]]:
    try:
        return find_base(store, source, table, listed), ()
    except BackupError as error:
        return None, (str(error),)


def _read_manifest(copies: KeptManifests, listed: StoredObject) -> Manifest | str:
    try:
        return Manifest.from_bytes(copies.read(listed), key=listed.key)
    except (BackupError, StoreError) as error:
        return str(error)


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


def _is_ahead(key: str, manifests: list[Manifest]) -> bool:
    numbers = parse_object_name(key)
    if numbers is None:
        return False
    epoch, partition, offset = numbers
    if not manifests or epoch > manifests[-1].plan.epoch:
        return True
    return epoch == manifests[-1].plan.epoch and offset >= manifests[-1].positions.get(partition, 0)


def _against_bronze(
    what: str, table: str, manifests: list[Manifest], bronze_path: str, base: BackupBase | None
) -> tuple[int, list[str]]:
    committed, first = bronze_committed(bronze_path), base.epoch if base else 0
    states = committed.of_table(table).values() if committed else ()
    records = sum(state.records_from(first) for state in states)
    if not manifests:
        return records, []
    newest = manifests[-1]
    last = {manifest.plan.epoch: manifest for manifest in manifests}
    ends = {epoch: m.positions for epoch, m in last.items()}
    rows = bronze_rows_below(bronze_path, newest.plan.topic, ends)
    records_held = sum(manifest.epoch_records for manifest in last.values())
    if rows == records_held:
        return max(0, records - records_held), []
    text = f"{what}: the backup holds {quantity(records_held, 'record')} up to {dict(newest.positions)}"
    text += f", bronze has {quantity(rows, 'row')} there"
    return max(0, records - records_held), [text]


@dataclass(frozen=True)
class StoredSource:
    """`others`: tables with manifests that are not declared, such as those that were taken out. `foreign`: keys of no table."""

    others: tuple[str, ...]
    foreign: tuple[str, ...]


def source_in_store(store: ObjectStore, source: str, declared: Collection[str]) -> StoredSource:
    """One listing of the source's prefix. Raises StoreError: the store cannot be asked."""
    keys = [item.key for item in store.list(f"{source}/")]
    with_manifests = set[str]()
    for key in keys:
        table = key.removeprefix(f"{source}/").partition("/")[0]
        folder = manifests_prefix(source, table)
        if key.startswith(folder) and is_batch_name(key.removeprefix(folder)):
            with_manifests.add(table)
    others = with_manifests - set(declared)
    sources = {*declared, *others}
    state = (log_prefix(source), sections_prefix(source), cuts_prefix(source))
    single = {newest_entry(source).key, last_drill_key(source)}
    foreign = [
        key
        for key in keys
        if key.removeprefix(f"{source}/").partition("/")[0] not in sources and not key.startswith(state) and key not in single
    ]
    return StoredSource(tuple(sorted(others)), tuple(sorted(foreign)))
