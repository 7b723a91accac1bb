"""A bucket of an object store: the few requests that a lake needs of it. S3 and GCS each have theirs below this.

Keys are whole, and a prefix is empty or ends with a slash. An object that is not there is FileNotFoundError; a store that does
not answer, or refuses, LakeStoreError with its own words. Times are whole seconds since 1970 by the store's own clock.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from spark.lake.place import StorePlace

_CLIENTS: dict[tuple[str | None, ...], Any] = {}


class FoundObject(NamedTuple):
    """An object as a list tells it: its key, its bytes, and when it was written."""

    key: str
    size: int
    at: float


class AgedObject(NamedTuple):
    """What an object holds, and for how many seconds, both by the store's own clock."""

    content: bytes
    seconds: float


class Page(NamedTuple):
    """A part of what is right below a prefix: its objects, and the prefixes of its folders."""

    objects: Sequence[FoundObject]
    folders: Sequence[str]


class Bucket(ABC):
    """The bucket of that place, which is there already."""

    def __init__(self, place: StorePlace) -> None:
        self.name, self.url = place.bucket, f"{place.scheme}://{place.bucket}"

    @abstractmethod
    def get(self, key: str) -> bytes:
        """What the object holds."""

    @abstractmethod
    def get_aged(self, key: str) -> AgedObject:
        """The object, and how long ago it was written."""

    @abstractmethod
    def pages(self, prefix: str, after: str = "") -> Iterator[Page]:
        """What is right below the prefix, in the order of its keys. What is before the key `after` may be left out."""

    @abstractmethod
    def has(self, prefix: str) -> bool:
        """Whether there is any object below the prefix."""

    @abstractmethod
    def now(self) -> float:
        """What the store's clock says."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write the object, whether there is one or not."""

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes) -> bool:
        """Write the object unless there is one; False where there is, which may be by this very call: its client repeats what was
        not answered."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; one that is gone is no error."""


def client_of_process(variables: Sequence[str], make: Callable[[], Any]) -> Any:
    """The store's client, one per process and for each value of the variables that say how the store is reached: to make one
    costs as much as twenty requests."""
    key = (*(os.environ.get(name) for name in variables), make.__qualname__, str(os.getpid()))
    if key not in _CLIENTS:
        _CLIENTS[key] = make()
    return _CLIENTS[key]
