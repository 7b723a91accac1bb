"""What the path of a lake, or of a table in it, names: a folder of this machine, or a prefix in a bucket."""

from __future__ import annotations

from dataclasses import dataclass

from spark.errors import LakePlaceError

STORES = {"s3a": "s3", "gs": "gcs"}
"""Schemes of object stores that a lake can lie in, as Spark writes them, each with the kind of its store."""
_MEANT = {"s3": "s3a://", "s3n": "s3a://", "gcs": "gs://"}


@dataclass(frozen=True)
class StorePlace:
    """A place in an object store; `prefix` has no slash at either end, and may be empty."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def kind(self) -> str:
        """The kind of its store, `s3` or `gcs`."""
        return STORES[self.scheme]

    @property
    def key(self) -> str:
        """`bucket/prefix`, as PyArrow takes it."""
        return f"{self.bucket}/{self.prefix}".rstrip("/")


def is_local(path: str) -> bool:
    """Whether that is a folder of this machine."""
    return ":" not in path and path.startswith("/")


def is_object(path: str) -> bool:
    """Whether that lies in an object store which a lake can lie in."""
    return path.partition("://")[0] in STORES and "://" in path


def is_reached(path: str) -> bool:
    """Whether its files are read and written without Spark."""
    return is_local(path) or is_object(path)


def store_place(path: str) -> StorePlace:
    """The bucket and prefix of a path in an object store.

    Raises:
        LakePlaceError: it is none, or of a store that a lake cannot lie in.
    """
    scheme, found, rest = path.partition("://")
    bucket, _, prefix = rest.partition("/")
    if not found or scheme not in STORES:
        meant = f"; write {_MEANT[scheme]}{rest}" if scheme in _MEANT else ""
        known = ", ".join(f"{name}://" for name in STORES)
        raise LakePlaceError(f"CDC_LAKE: no lake can lie at {path}{meant}: it is a folder, or begins with {known}")
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    if not bucket or any(part in ("", ".", "..") for part in parts) or set("?#@\\") & set(rest):
        raise LakePlaceError(f"CDC_LAKE: {path} names no bucket and prefix; write {scheme}://bucket/prefix")
    return StorePlace(scheme, bucket, "/".join(parts))
