"""Compares a table's manifests with its objects and with bronze, and names every difference; and what lies below a source's
prefix that nobody of ours has written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.backup.backup_end import BackupListing, EarlierEnds, earlier_ends, is_planned, plans_without_manifest, read_plan
from cdc_assets.backup.kept_cuts import cuts_prefix
from cdc_assets.backup.manifest import BatchPlan, KeptManifests, Manifest, ManifestObject
from cdc_assets.backup.manifest_chain import BackupBase, chain_differences, find_base, is_gone
from cdc_assets.backup.object_layout import (
    columns_key,
    epoch_of_key,
    history_columns_key,
    is_batch_name,
    is_epoch_key,
    last_drill_key,
    manifests_prefix,
    newest_key,
    plans_prefix,
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
    """What the manifests hold and what is wrong with it.

    `differences` are losses: a restore lacks something of them. `strays` lose nothing: objects that nobody of ours has written,
    and plans of whole batches that have changed. `unfinished` are objects of a batch that is planned and has no manifest yet:
    the next backup finishes it. `behind` are records that bronze has committed and the backup does not hold yet.
    """

    manifests: int
    objects: int
    records: int
    differences: tuple[str, ...]
    unfinished: tuple[str, ...] = ()
    behind: int = 0
    strays: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[str, ...]:
        """All that is to be looked at, losses first."""
        return (*self.differences, *self.strays)

    @property
    def ok(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.wrong


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
    looked, earlier = _Verified(store, source, table, deep, None if deep else kept), earlier_ends(store, source, table)
    listed = looked.list_all()
    base, wrong = _read_base(store, source, table, listed)
    return looked.compare(listed, earlier, base, wrong, bronze_path)


def verify_from(base: BackupBase, store: ObjectStore, *, bronze_path: str, kept: Path | None = None) -> VerifyReport:
    """The report of a backup that would begin with this base, of whose objects the listing alone is read.

    Raises:
        StoreError: when the store cannot be asked.
    """
    looked, earlier = _Verified(store, base.source, base.table, False, kept), earlier_ends(store, base.source, base.table)
    return looked.compare(looked.list_all(), earlier, base, (), bronze_path)


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
        self,
        all_listed: Mapping[str, StoredObject],
        earlier: EarlierEnds,
        base: BackupBase | None,
        wrong: tuple[str, ...],
        bronze_path: str | None,
    ) -> VerifyReport:
        """The report of what is listed from the base on; `wrong` are differences that are known by now."""
        listed = {key: item for key, item in all_listed.items() if not is_gone(base, key)}
        folder = manifests_prefix(self.source, self.table)
        keys = sorted(key for key in listed if key.startswith(folder) and is_batch_name(key.removeprefix(folder)))
        with ThreadPoolExecutor(_READERS) as pool:
            copies = KeptManifests(self.store, self.kept)
            by_key = dict(zip(keys, pool.map(lambda key: _read_manifest(copies, listed[key]), keys), strict=True))
            manifests = [manifest for manifest in by_key.values() if isinstance(manifest, Manifest)]
            plans = plans_without_manifest(self.store, self.source, self.table, listed, by_key)
            listing = BackupListing(
                self.store, self.source, self.table, all_listed, listed, by_key, copies.read, earlier, plans, base
            )
            unread = [text for text in by_key.values() if isinstance(text, str)]
            differences = [*wrong, *unread, *chain_differences(manifests, base), *listing.differences()]
            items = [item for manifest in manifests for item in manifest.objects]
            texts = pool.map(lambda item: _object_difference(self.store, item, listed.get(item.key), deep=self.deep), items)
            differences.extend(text for text in (*texts, *self._epoch_differences(listed)) if text is not None)
            strays = [*pool.map(lambda manifest: self._plan_difference(manifest.plan, listed), manifests), *plans.values()]
        unnamed = self._nobodys({*listed} - {item.key for item in items} - {*keys})
        unfinished = self._of_a_plan(unnamed, plans, by_key)
        strays += [f"{key} is in no manifest, and no plan names it" for key in unnamed if key not in unfinished]
        what = f"{self.source}/{self.table}"
        behind, against = _against_bronze(what, self.table, manifests, bronze_path, base) if bronze_path else (0, [])
        return VerifyReport(
            manifests=len(manifests),
            objects=len(items),
            records=sum(m.records for m in manifests),
            differences=(*differences, *against),
            unfinished=tuple(unfinished),
            behind=behind,
            strays=tuple(stray for stray in strays if isinstance(stray, str)),
        )

    def _of_a_plan(self, unnamed: list[str], plans: Mapping[str, BatchPlan | str], manifests: Mapping[str, object]) -> list[str]:
        """Those of the objects that a plan without a manifest names."""
        if not all(_is_planned_by(key, plans) for key in unnamed):
            # A plan that a backup has written since the listing came by its folder: it is there before its objects are.
            there = {item.key: item for item in self.store.list(plans_prefix(self.source, self.table))}
            plans = plans_without_manifest(self.store, self.source, self.table, there, manifests)
        return [key for key in unnamed if _is_planned_by(key, plans)]

    def _plan_difference(self, plan: BatchPlan, listed: Mapping[str, StoredObject]) -> str | None:
        """Why the plan of a whole batch is another than the one that its manifest has; nobody needs it any more."""
        expected, stored, harmless = plan.to_bytes(), listed.get(plan.key), "its batch is whole, and nothing is lost"
        if stored is None:
            return f"{plan.key} is missing; {harmless}"
        md5 = hashlib.md5(expected, usedforsecurity=False).hexdigest()
        is_another = stored.size != len(expected) or (stored.md5 is not None and stored.md5 != md5)
        if is_another or (self.deep and stored.md5 != md5 and _content(self.store, plan.key) != expected):
            return f"{plan.key} is another than its manifest says; {harmless}"
        return None

    def _epoch_differences(self, listed: Mapping[str, StoredObject]) -> Iterator[str]:
        for key in sorted(key for key in listed if is_epoch_key(key)):
            plan = read_plan(self.store, key)
            if isinstance(plan, str):
                yield plan

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


def _is_planned_by(key: str, plans: Mapping[str, BatchPlan | str]) -> bool:
    return any(is_planned(key, plan) for plan in plans.values())


def _content(store: ObjectStore, key: str) -> bytes:
    try:
        return store.get(key)
    except StoreError:
        return b""


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
    """One listing of the source's prefix.

    Raises:
        StoreError: the store cannot be asked.
    """
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
