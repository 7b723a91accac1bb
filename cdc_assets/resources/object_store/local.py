"""A folder with an object store's semantics: whole objects or none, and one winner per key."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cdc_assets.errors import StoreError
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store.base import ObjectStore, StoredObject


class LocalStore(ObjectStore):
    """`bucket` is the folder. Objects are written beside and linked or renamed into place."""

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        self._root = Path(config.bucket)
        self._incoming = self._root / ".incoming"

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        written = self._write(data)
        target = self._path(key)
        written.replace(target)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """A hard link is made or refused by the kernel in one step."""
        written = self._write(data)
        target = self._path(key)
        try:
            os.link(written, target)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        return True

    def get(self, key: str) -> bytes:
        """The object's bytes."""
        try:
            return self._path(key).read_bytes()
        except OSError as error:
            raise StoreError(f"read {self.url}/{key}: {error.strerror}") from error

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects below the prefix, sorted by key."""
        folder = self._root / self.full_prefix(prefix)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                key = self.relative(path.relative_to(self._root).as_posix())
                yield StoredObject(key, len(data), hashlib.md5(data, usedforsecurity=False).hexdigest())

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        path = self._root / self.full_key(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _write(self, data: bytes) -> Path:
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._incoming)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return Path(name)
