"""Whether a source's platform log is one chain, and every part of it what its digest says; names each object that is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cdc_assets.backup.kept_manifests import KeptManifests
from cdc_assets.backup.platform.document import (
    PlatformEntry,
    digest,
    entry_key,
    is_entry_name,
    is_part_name,
    log_prefix,
    newest_entry,
    part_key,
    parts_prefix,
)
from cdc_assets.errors import BackupError, StoreError
from cdc_assets.resources.object_store import ObjectStore, StoredObject


def verify_state(store: ObjectStore, source: str, *, deep: bool = False, kept: Path | None = None) -> tuple[str, ...]:
    """What is wrong; empty: nothing. The newest entry's parts are read, with `deep` those of all.

    Raises:
        StoreError: the store cannot be asked.
    """
    # Parts last: whoever writes meanwhile has written them before the entry.
    logged = {item.key: item for item in store.list(log_prefix(source))}
    parts = {item.key for item in store.list(parts_prefix(source))}
    return tuple(_differences(store, source, logged, parts, KeptManifests(store, None if deep else kept), deep))


def _differences(
    store: ObjectStore, source: str, logged: dict[str, StoredObject], parts: set[str], copies: KeptManifests, deep: bool
) -> Iterator[str]:
    previous, read, expected, digests = "", set[str](), 1, dict[str, str]()
    foreign = sorted(key for key in parts if not is_part_name(key.removeprefix(parts_prefix(source))))
    yield from (f"{key} is no part of a platform log" for key in foreign)
    for key in sorted(logged):
        if not is_entry_name(key.removeprefix(log_prefix(source))):
            yield f"{key} is no entry of a platform log"
            continue
        try:
            data = copies.read(logged[key])
            entry = PlatformEntry.from_bytes(data, key=key)
        except (BackupError, StoreError) as error:
            yield str(error)
            previous, expected, digests[key] = "unknown", expected + 1, ""
            continue
        digests[key] = digest(data)
        if entry_key(source, entry.number) != key:
            yield f"{key} holds entry {entry.number}"
        elif entry.number != expected:
            yield f"{entry_key(source, expected)} is missing: {key} is the next one"
        elif entry.previous != previous and previous != "unknown":
            yield f"{key} follows an entry with sha256 {entry.previous}, the one before it has {previous}"
        previous, expected = digests[key], entry.number + 1
        wanted = {part_key(source, sha256): sha256 for sha256 in entry.parts.values()}
        yield from (f"{part} is missing: {key} names it" for part in sorted(wanted.keys() - parts - read))
        if deep or key == max(logged):
            yield from _find_altered(store, {part: sha for part, sha in wanted.items() if part in parts and part not in read})
            read |= wanted.keys()
        read |= wanted.keys() - parts
    newest = newest_entry(source)
    yield from newest.differences(store, digests, lambda: store.get(newest.key))


def _find_altered(store: ObjectStore, wanted: dict[str, str]) -> Iterator[str]:
    for key, sha256 in sorted(wanted.items()):
        try:
            found = digest(store.get(key))
        except StoreError as error:
            yield f"{key} cannot be read: {error}"
            continue
        if found != sha256:
            yield f"{key} has another content than its name says: sha256 {found}"
