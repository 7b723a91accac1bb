"""Object stores behind one small interface, and a local folder that does the same: whole objects or none, one winner per key.

Keys are relative to the store's prefix. A prefix for listing always ends in a slash, so that `orders/` never lists `orders2/`.
Vendor exceptions stop in the stores; what leaves them is a `StoreError` with bucket and key, of a class by what the caller can
do about it. The folder is for tests, and for a mounted disk: what is acknowledged is on the disk (fsync of the file and of its
folder).
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.registry.backup_store import STORES, BackupStore
from cdc_assets.registry.errors import StoreError


class MissingObjectError(StoreError):
    """There is no object under this key."""


# Both S3's and GCS's limit, in bytes of UTF-8.
_LONGEST_KEY = 1024


@dataclass(frozen=True)
class StoredObject:
    """An object as a listing shows it; `md5` (hex, of the content) is None where the store does not tell it."""

    key: str
    size: int
    md5: str | None = None


class ObjectStore(ABC):
    """A bucket and a prefix. Every method takes and gives keys relative to the prefix.

    All of them raise `StoreError` or one of its children.
    """

    def __init__(self, config: BackupStore) -> None:
        self.config = config

    @property
    def url(self) -> str:
        """The store's place for messages, as `scheme://bucket/prefix`."""
        return f"{STORES[self.config.kind].scheme}://{self.config.bucket}/{self.config.prefix}"

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one; False when there is. Atomic: of two writers one loses.

        The client repeats a request whose answer got lost, so False may also mean that this very call wrote the
        object: a caller that minds looks at what is there.
        """

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The object's bytes. Raises MissingObjectError: when there is none."""

    @abstractmethod
    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects below `prefix` (it ends in a slash) whose key is greater than `after`, in order of their keys."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; nothing happens when there is none."""

    @abstractmethod
    def create_bucket(self) -> None:
        """Make the bucket unless it exists: for the endpoints of the local stack. Elsewhere buckets are given."""

    def full_key(self, key: str) -> str:
        """The key in the bucket. Raises StoreError: for a key that could leave the prefix or mean something else than it says."""
        full = f"{self.config.prefix}/{key}"
        parts = key.split("/")
        if any(folder in ("", ".", "..") for folder in parts) or any(ord(c) < 32 or c in "\\\x7f" for c in key):
            raise StoreError(f"{key!r} is no key inside {self.url}")
        try:
            length = len(full.encode())
        except UnicodeEncodeError as error:
            raise StoreError(f"{key!r} is no key inside {self.url}: {error.reason}") from error
        if length > _LONGEST_KEY:
            raise StoreError(f"{key!r} is too long for {self.url}: a key has at most {_LONGEST_KEY} bytes")
        return full

    def full_prefix(self, prefix: str) -> str:
        """The prefix in the bucket; must end in a slash."""
        if not prefix.endswith("/"):
            raise StoreError(f"{prefix!r} does not end in a slash: it would list its longer namesakes as well")
        return self.full_key(prefix[:-1]) + "/"

    def relative(self, full_key: str) -> str:
        """The inverse of `full_key`."""
        return full_key[len(self.config.prefix) + 1 :]


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
            raise StoreError(f"list {self.url}/{prefix}: there is no folder {self._root}")
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
            raise StoreError(f"write {self.url}: there is no folder {self._root}")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._incoming)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(name)

    def _error(self, what: str, key: str, error: OSError) -> StoreError:
        is_missing = isinstance(error, FileNotFoundError) and self._root.is_dir()
        return (MissingObjectError if is_missing else StoreError)(f"{what} {self.url}/{key}: {error.strerror}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
