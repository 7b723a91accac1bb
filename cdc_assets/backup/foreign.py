"""What lies below a source's prefix in its backup: tables that have manifests, and objects that nobody of ours has written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cdc_assets.backup.kept_cuts import cuts_prefix
from cdc_assets.backup.layout import is_batch_name, last_drill_key, manifests_prefix
from cdc_assets.backup.platform.document import log_prefix, newest_entry, parts_prefix
from cdc_assets.resources.object_store import ObjectStore


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
    with_manifests = {key.removeprefix(f"{source}/").partition("/")[0] for key in keys if _is_manifest(source, key)}
    others = with_manifests - set(declared)
    known = {*declared, *others}
    state = (log_prefix(source), parts_prefix(source), cuts_prefix(source))
    single = {newest_entry(source).key, last_drill_key(source)}
    foreign = [
        key
        for key in keys
        if key.removeprefix(f"{source}/").partition("/")[0] not in known and not key.startswith(state) and key not in single
    ]
    return StoredSource(tuple(sorted(others)), tuple(sorted(foreign)))


def _is_manifest(source: str, key: str) -> bool:
    table, slash, _ = key.removeprefix(f"{source}/").partition("/")
    folder = manifests_prefix(source, table)
    return bool(slash) and key.startswith(folder) and is_batch_name(key.removeprefix(folder))
