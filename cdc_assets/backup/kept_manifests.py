"""Manifests as they were read before, kept on this machine: a table that is backed up every five minutes has 100,000 a year.

A copy counts only while the store lists its object with the MD5 of the copy (an object of S3 that is put in one part has
its MD5 as ETag; GCS lists md5Hash). Where a store lists none, or the copy is gone, the object is read: the folder is a
cache and may be removed at any time.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cdc_assets.durable_file import replace_bytes
from cdc_assets.resources.object_store import ObjectStore, StoredObject


class KeptManifests:
    """Reads manifests of one store through copies in a folder."""

    def __init__(self, store: ObjectStore, folder: Path | None) -> None:
        self._store = store
        self._folder = folder

    def read(self, listed: StoredObject) -> bytes:
        """The object's bytes.

        Raises:
            StoreError: when it has to be read and cannot be.
        """
        if self._folder is None or not listed.md5:
            return self._store.get(listed.key)
        name = hashlib.sha256(f"{self._store.url}/{listed.key}".encode()).hexdigest()
        copy = self._folder / name[:2] / name
        try:
            data = copy.read_bytes()
        except FileNotFoundError:
            data = b""
        if len(data) == listed.size and hashlib.md5(data, usedforsecurity=False).hexdigest() == listed.md5:
            return data
        data = self._store.get(listed.key)
        replace_bytes(copy, data)
        return data
