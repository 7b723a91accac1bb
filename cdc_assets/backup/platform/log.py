"""The log of a source's platform in its backup: appended by conditional puts, so that two writers make one chain."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from cdc_assets.backup.newest import NamedObject
from cdc_assets.backup.platform.document import (
    PlatformEntry,
    PlatformState,
    digest,
    entry_key,
    is_entry_name,
    log_prefix,
    newest_entry,
    part_key,
)
from cdc_assets.backup.signature import sign
from cdc_assets.errors import BackupError
from cdc_assets.resources.object_store import ObjectStore


def write_state(store: ObjectStore, source: str, state: PlatformState) -> PlatformEntry | None:
    """Parts that are new, then the entry; None where the newest entry says the same.

    Raises:
        StoreError: the store does not take it.
        BackupError: the newest entry cannot be read.
    """
    documents = state.documents()
    parts = {name: digest(data) for name, data in documents.items()}
    while True:
        named = newest_entry(source).read(store)
        newest = _newest(store, source, named)
        number, previous = (newest[0].number + 1, digest(newest[1])) if newest else (1, "")
        if newest is not None and newest[0].parts == parts:
            _name(store, source, newest, named)
            return None
        for name, data in documents.items():
            if newest is None or newest[0].parts.get(name) != parts[name]:
                store.put_if_absent(part_key(source, parts[name]), data)
        at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds")
        entry = PlatformEntry(number, at, previous, parts)
        if store.put_if_absent(entry_key(source, number), entry.to_bytes()):
            newest_entry(source).write(store, entry_key(source, number), digest(entry.to_bytes()))
            return entry
        # Another writer was first, or this very call, whose answer got lost: what is there now decides.


def newest_state(store: ObjectStore, source: str) -> tuple[PlatformEntry, PlatformState] | None:
    """The newest entry with its parts, each as its digest says; None where the backup has none.

    Raises:
        BackupError: an object is another one than it was written as; names it.
        StoreError: the store cannot be asked, or lacks a part.
    """
    newest = _newest(store, source, newest_entry(source).read(store))
    if newest is None:
        return None
    read = {name: _part(store, source, sha256) for name, sha256 in newest[0].parts.items()}
    return newest[0], PlatformState(**read)


def newest_part(store: ObjectStore, source: str, name: str) -> Any:
    """One part of the newest entry, as its digest says; empty where the backup has no entry, or that one lacks it.

    Raises:
        BackupError: an object is another one than it was written as; names it.
        StoreError: the store cannot be asked, or lacks the part.
    """
    newest = _newest(store, source, newest_entry(source).read(store))
    sha256 = newest[0].parts.get(name) if newest else None
    return _part(store, source, sha256) if sha256 else {}


def registry_files(store: ObjectStore, source: str) -> tuple[str, str]:
    """The text of the source's file in the newest entry, and in the last one before that had another; empty: there is none.

    Raises:
        BackupError: an object is another one than it was written as, or not written by who has the secret; names it.
        StoreError: the store cannot be asked, or lacks a part.
    """
    folder, name = log_prefix(source), newest_entry(source)
    keys, named = sorted(_entries(store, folder), reverse=True), name.read(store)
    if not keys:
        return "", ""
    forged = [*name.forgeries(named, keys[0])] if named else []
    if forged or (named is None and sign(name.key, "")):
        reason = forged[0] if forged else f"{name.key} names no entry, so none is signed"
        raise BackupError(f"{reason}; look at {name.key} and at the entries, or take the registry's files from git")
    digests = dict[str, None]()
    for key in keys:
        digests[PlatformEntry.from_bytes(store.get(key), key=key).parts["registry"]] = None
        if len(digests) == 2:
            break
    newest, before = [str(_part(store, source, each)) for each in digests] + [""] * (2 - len(digests))
    return newest, before


def _part(store: ObjectStore, source: str, sha256: str) -> Any:
    key = part_key(source, sha256)
    data = store.get(key)
    if digest(data) != sha256:
        raise BackupError(f"{key} has another content than its name says: sha256 {digest(data)}")
    return json.loads(data)


def _name(store: ObjectStore, source: str, newest: tuple[PlatformEntry, bytes], named: NamedObject | None) -> None:
    """Where nothing names the newest by its digest: whoever wrote it was killed before, or was of an earlier release."""
    key = entry_key(source, newest[0].number)
    if named is None or named.key < key or (named.key == key and not named.digest):
        newest_entry(source).write(store, key, digest(newest[1]))


def _newest(store: ObjectStore, source: str, named: NamedObject | None) -> tuple[PlatformEntry, bytes] | None:
    folder = log_prefix(source)
    key = max(_entries(store, folder, after=named.key[:-1]), default=None) if named else None
    key = key or max(_entries(store, folder), default=None)
    if key is None:
        return None
    data = store.get(key)
    return PlatformEntry.from_bytes(data, key=key), data


def _entries(store: ObjectStore, folder: str, *, after: str = "") -> list[str]:
    return [item.key for item in store.list(folder, after=after) if is_entry_name(item.key.removeprefix(folder))]
