"""A folder with an object store's semantics: whole objects or none, and one winner per key.

For tests, and for a mounted disk. What is acknowledged is on the disk (fsync of the file and of its folder).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cdc_assets.errors import StoreError
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store.base import ObjectStore, StoredObject
from cdc_assets.resources.object_store.errors import MissingBucketError, MissingObjectError, StoreAccessError


class LocalStore(ObjectStore):
    """`bucket` is the folder, which must exist. Objects are written beside, then linked or renamed into place."""

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        self._root = Path(config.bucket)
        self._incoming = self._root / ".incoming"

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        self._place(key, data, Path.replace)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """A hard link is made or refused by the kernel in one step."""
        return self._place(key, data, os.link)

    def get(self, key: str) -> bytes:
        """The file's bytes; MissingObjectError where there is none."""
        path = self._path(key)
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._error("read", key, error) from error

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects below the prefix, without their MD5: a folder does not know it."""
        self.full_prefix(prefix)
        folder = self._path(prefix[:-1])
        if not self._root.is_dir():
            raise MissingBucketError(f"list {self.url}/{prefix}: there is no folder {self._root}")
        root = self._root.resolve()
        files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        # Sorted as object stores do, by the whole key: `a-b/c` comes before `a/b`.
        for key, path in sorted((self.relative(path.relative_to(root).as_posix()), path) for path in files):
            if key > after:
                yield StoredObject(key, path.stat().st_size)

    def delete(self, key: str) -> None:
        """Remove a file; one that is gone is no error."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error("delete", key, error) from error

    def create_bucket(self) -> None:
        """Make the folder, for its owner alone."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        root = self._root.resolve()
        path = root / self.full_key(key)
        try:
            # Symbolic links: nothing that somebody put there may lead out of the folder.
            leads_out = not path.parent.resolve().is_relative_to(root) or path.is_symlink()
        except OSError as error:
            raise self._error("find", key, error) from error
        if leads_out:
            raise StoreError(f"{key!r} leads out of {self.url}")
        return path

    def _place(self, key: str, data: bytes, move: Callable[[Path, Path], object]) -> bool:
        """Write beside, then move; whether `move` found the place free."""
        target = self._path(key)
        try:
            written = self._write(data, target)
            try:
                move(written, target)
            except FileExistsError:
                return False
            finally:
                written.unlink(missing_ok=True)
            _sync_folder(target.parent)
        except OSError as error:
            raise self._error("write", key, error) from error
        return True

    def _write(self, data: bytes, target: Path) -> Path:
        if not self._root.is_dir():
            raise MissingBucketError(f"write {self.url}: there is no folder {self._root}")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._incoming)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(name)

    def _error(self, what: str, key: str, error: OSError) -> StoreError:
        kind: type[StoreError] = StoreError
        if isinstance(error, PermissionError):
            kind = StoreAccessError
        elif isinstance(error, FileNotFoundError):
            kind = MissingObjectError if self._root.is_dir() else MissingBucketError
        return kind(f"{what} {self.url}/{key}: {error.strerror}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
