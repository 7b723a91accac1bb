"""Objects of the GCS endpoint in a folder of its own. A name that a client sends is a value in a table, never a path.

`objects.sqlite` has a row for each object; `.content/` a file for each, under a name that is drawn here. Generations and
conditions as https://cloud.google.com/storage/docs/request-preconditions has them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

_TABLES = """
CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS objects (
  bucket TEXT, name TEXT, file TEXT NOT NULL, size INTEGER NOT NULL, md5 TEXT NOT NULL, crc32c TEXT NOT NULL,
  generation INTEGER NOT NULL, content_type TEXT NOT NULL, metadata TEXT NOT NULL, PRIMARY KEY (bucket, name)
) WITHOUT ROWID;
"""
_COLUMNS = "name, file, size, md5, crc32c, generation, content_type, metadata"
_PAGE = 200
CHUNK = 1 << 20
"""Bytes that are read at a time."""


class RefusedError(Exception):
    """A request is not done; `status` is what the client is answered with."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class GcsObject:
    """An object; `generation` is when it was written, in microseconds, and greater at each write. Digests are base64."""

    name: str
    file: str
    size: int
    md5: str
    crc32c: str
    generation: int
    content_type: str
    metadata: str


@dataclass(frozen=True)
class Conditions:
    """Generations that the object must, or must not, have; 0 is that of an object that is not there."""

    match: int | None = None
    not_match: int | None = None

    def check(self, found: GcsObject | None) -> None:
        """Raises RefusedError: 412, as Google's own answers."""
        generation = found.generation if found else 0
        if self.match not in (None, generation) or self.not_match == generation:
            raise RefusedError(412, "At least one of the pre-conditions you specified did not hold.")


@dataclass
class Draft:
    """Content that arrives, with its digests; nobody sees it before `KeptObjects.keep`."""

    path: Path
    output: BinaryIO
    size: int = 0
    _md5: hashlib._Hash = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))
    _crc32c: int = 0

    def write(self, data: bytes) -> None:
        """Append these bytes to it."""
        import google_crc32c

        self.output.write(data)
        self._md5.update(data)
        self._crc32c = google_crc32c.extend(self._crc32c, data)
        self.size += len(data)

    def discard(self) -> None:
        """Remove what has arrived."""
        self.output.close()
        self.path.unlink(missing_ok=True)

    @property
    def digests(self) -> tuple[str, str]:
        """MD5 and CRC32C as Google tells them."""
        crc32c = self._crc32c.to_bytes(4, "big")
        return base64.b64encode(self._md5.digest()).decode(), base64.b64encode(crc32c).decode()


class KeptObjects:
    """All buckets of a folder; methods may be called by several threads."""

    def __init__(self, root: Path) -> None:
        self._content = root / ".content"
        self._content.mkdir(mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(root / "objects.sqlite", check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.executescript(_TABLES)
        for path in self._content.glob("draft-*"):
            path.unlink()

    def buckets(self) -> list[str]:
        """The names of all, sorted."""
        return [name for (name,) in self._ask("SELECT name FROM buckets ORDER BY name")]

    def create_bucket(self, name: str) -> None:
        """Raises RefusedError: 409, there is one."""
        if not self._ask("INSERT INTO buckets VALUES (?) ON CONFLICT DO NOTHING RETURNING name", name):
            raise RefusedError(409, "You already own this bucket. Please select another name.")

    def check_bucket(self, name: str) -> None:
        """Raises RefusedError: 404, there is none."""
        if not self._ask("SELECT name FROM buckets WHERE name = ?", name):
            raise RefusedError(404, "The specified bucket does not exist.")

    def find(self, bucket: str, name: str, conditions: Conditions | None = None) -> GcsObject:
        """Raises RefusedError: 404, there is no such object, or 412, it is another generation of it."""
        self.check_bucket(bucket)
        stored = self._find(bucket, name)
        (conditions or Conditions()).check(stored)
        if stored is None:
            raise RefusedError(404, f"No such object: {bucket}/{name}")
        return stored

    def open(self, found: GcsObject) -> BinaryIO:
        """Its bytes. Raises RefusedError: 404, it was replaced or removed since."""
        try:
            return (self._content / found.file).open("rb")
        except FileNotFoundError:
            raise RefusedError(404, f"No such object: {found.name}") from None

    def draft(self) -> Draft:
        """Begin to receive content."""
        path = self._content / f"draft-{secrets.token_hex(16)}"
        return Draft(path, path.open("xb"))

    def keep(
        self, draft: Draft, bucket: str, name: str, *, conditions: Conditions, content_type: str, metadata: Mapping[str, str]
    ) -> GcsObject:
        """The draft becomes the object's content.
        Raises RefusedError: 404 of the bucket, or 412 by the conditions; then nothing is changed."""
        draft.output.close()
        try:
            self.check_bucket(bucket)
            with self._lock:
                before = self._row(bucket, name)
                conditions.check(before)
                generation = max(time.time_ns() // 1000, before.generation + 1 if before else 1)
                file = secrets.token_hex(16)
                kept = GcsObject(name, file, draft.size, *draft.digests, generation, content_type, json.dumps(dict(metadata)))
                draft.path.rename(self._content / file)
                values = (bucket, *(getattr(kept, column.strip()) for column in _COLUMNS.split(",")))
                self._database.execute(f"INSERT OR REPLACE INTO objects (bucket, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", values)
        finally:
            draft.discard()
        if before:
            (self._content / before.file).unlink(missing_ok=True)
        return kept

    def delete(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Raises RefusedError: 404 or 412."""
        self.find(bucket, name)
        with self._lock:
            stored = self._row(bucket, name)
            conditions.check(stored)
            self._database.execute("DELETE FROM objects WHERE bucket = ? AND name = ?", (bucket, name))
        if stored:
            (self._content / stored.file).unlink(missing_ok=True)

    def names(self, bucket: str, start: str, end: str = "") -> Iterator[GcsObject]:
        """Objects from `start` on, before `end`, in the order of their names."""
        while True:
            until, values = (" AND name < ?", (bucket, start, end)) if end else ("", (bucket, start))
            query = f"SELECT {_COLUMNS} FROM objects WHERE bucket = ? AND name >= ?{until} ORDER BY name LIMIT {_PAGE}"
            page = [GcsObject(*row) for row in self._ask(query, *values)]
            yield from page
            if len(page) < _PAGE:
                return
            start = page[-1].name + "\0"

    def _find(self, bucket: str, name: str) -> GcsObject | None:
        with self._lock:
            return self._row(bucket, name)

    def _row(self, bucket: str, name: str) -> GcsObject | None:
        query = f"SELECT {_COLUMNS} FROM objects WHERE bucket = ? AND name = ?"
        row = self._database.execute(query, (bucket, name)).fetchone()
        return GcsObject(*row) if row else None

    def _ask(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()
