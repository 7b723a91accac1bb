"""What a backup needs of an object store, and what every store does the same way: confined keys.

Keys are relative to the store's prefix. A prefix for listing always ends in a slash, so that `orders/` never
lists `orders2/`. Vendor exceptions stop in the stores; what leaves them is a `StoreError` with bucket and key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_assets.errors import StoreError
from cdc_assets.kinds.stores import STORES
from cdc_assets.registry.backup_store import BackupStore

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

    All of them raise `StoreError` or one of its children (`object_store.errors`).
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
        """The object's bytes.

        Raises:
            MissingObjectError: when there is none.
        """

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
        """The key in the bucket.

        Raises:
            StoreError: for a key that could leave the prefix or mean something else than it says.
        """
        full = f"{self.config.prefix}/{key}"
        parts = key.split("/")
        if any(part in ("", ".", "..") for part in parts) or any(ord(c) < 32 or c in "\\\x7f" for c in key):
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
