"""Whose turn it is to write a table: Spark's, or a task's.

Delta's store for local files guards a commit within its own JVM only (delta-io/delta#1830): Spark, that is just writing, may
put its commit over one of a task. So both take the kernel's lock on a file in the table's folder, which ends with its process.

What the lock cannot tell: a client of Spark is killed, and its statement goes on in the server, which gives it up after half a
minute (spark.table.server_conf, detachedTimeout). So Spark's writer leaves a mark in the file for as long as it writes, and a
task does not write while a mark is there that is not older than MARK_SECONDS. Then Spark does, as it can beside itself.

A table in an object store has a lease instead: a row of objects, each made only where there is none. Delta's store for S3 puts a
commit unconditionally (S3SingleDriverLogStore), so both hold the table's lease while they write. An object `_cdc_writer/N.json`
is a claim or its end, and N the fencing number:

- take: the newest is an end, or a claim that nobody has renewed for TWO_MINUTES: put N + 1
- renew: put N + 1, each half minute
- give: put N + 1 as an end

Whoever finds a higher number than its own has lost the table. How old a claim is, the store's own clock says. A writer of Spark
that ends by an error of Spark leaves its claim: the server may go on for half a minute.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from spark.errors import (
    CommitUncertainError,
    EndpointError,
    LeftToSparkError,
    SparkJobError,
    TableHeldError,
    TableStopError,
    other_format,
)
from spark.table.lake_location import is_local, is_object
from spark.table.table_folder import ObjectFolder, make_folder

SPARK, TASK = "spark", "task"
FOLDER, FORMAT = "_cdc_writer", 1
"""In the table's folder; Delta's VACUUM leaves names alone that begin with an underscore."""
TWO_MINUTES, RENEW_SECONDS = 120.0, 30.0
_POLL_SECONDS = 0.25
_NAME = re.compile(r"[0-9]{20}\.json")
_HELD: dict[str, TableLease] = {}


class _Claim(NamedTuple):
    """The newest object of the row; `holder` is empty where it is an end."""

    number: int
    token: str
    holder: str
    seconds: float


class TableLease:
    """The lease of one table, taken by this process; `kind` is `spark` or `task`."""

    def __init__(self, folder: ObjectFolder, kind: str, number: int) -> None:
        self.folder, self.kind, self.number = folder, kind, number
        self.token = uuid.uuid4().hex
        self._turn, self._ended = threading.Lock(), threading.Event()
        self.lost = False

    def refuse_lost(self) -> None:
        """Ask the store whether it is still ours. Raises TableHeldError: somebody else has taken it."""
        with self._turn:
            self.lost = self.lost or bool(_row(self.folder, after=self.number))
        if self.lost:
            raise TableHeldError(
                f"{self.folder.path}: another writer took the table while this one wrote it; run it again", is_lost=True
            )

    def put_next(self, holder: str) -> bool:
        """The next object of the row; False where somebody else has made it."""
        with self._turn:
            return self._put_next(holder)

    def renew_once(self) -> bool:
        """A claim more; False where the lease is lost, or has been given back while this waited for its turn."""
        with self._turn:
            return not self._ended.is_set() and self._put_next(_holder(self.kind))

    def _put_next(self, holder: str) -> bool:
        if self.lost or not _put(self.folder, self.number + 1, self.token, holder):
            self.lost = True
            return False
        self.number += 1
        return True

    def renew(self) -> None:
        """Renew it until it is given back or lost, or the store has not answered for too long."""
        renewed = time.monotonic()
        while not self._ended.wait(RENEW_SECONDS):
            try:
                if not self.renew_once():
                    return
                renewed = time.monotonic()
            except EndpointError:
                if time.monotonic() - renewed > TWO_MINUTES:
                    self.lost = True
                    return

    def stop_renewing(self) -> None:
        """What is not renewed ends by itself."""
        self._ended.set()


@contextmanager
def hold(path: str, kind: str, *, seconds: float) -> Iterator[None]:
    """For as long as `kind` writes the table.

    Raises:
        TableHeldError: somebody else writes it for longer than `seconds`; it was taken over while Spark wrote.
    """
    with keep(take(path, kind, seconds=seconds)):
        yield


@contextmanager
def keep(lease: TableLease) -> Iterator[None]:
    """Renew it meanwhile, and give it back, unless an error says that a write may still be on its way.

    Raises:
        TableHeldError: it was taken over while Spark wrote.
    """
    path = lease.folder.path
    threading.Thread(target=lease.renew, name="cdc-lease", daemon=True).start()
    _HELD[path] = lease
    is_settled = False
    try:
        yield
        is_settled = True
    except Exception as error:
        is_settled = not isinstance(error, CommitUncertainError) and (lease.kind == TASK or isinstance(error, SparkJobError))
        raise
    finally:
        _HELD.pop(path, None)
        lease.stop_renewing()
        if is_settled:
            _give_back(lease)


def take(path: str, kind: str, *, seconds: float) -> TableLease:
    """The lease, as soon as it is free. Raises TableHeldError: it is held for longer than `seconds`."""
    folder, until = ObjectFolder(path), time.monotonic() + seconds
    while True:
        newest = _newest(folder)
        if not newest.holder or newest.seconds > TWO_MINUTES:
            lease = TableLease(folder, kind, newest.number)
            if _claim(lease):
                return lease
        elif time.monotonic() > until:
            raise TableHeldError(f"{path} is being written by {newest.holder}, for {newest.seconds:.0f} s by its last word")
        time.sleep(_POLL_SECONDS)


def refuse_lost(path: str) -> None:
    """Before a commit: whether the table is still this process's to write, where it holds its lease.

    Raises:
        TableHeldError: it is not.
    """
    if path in _HELD:
        _HELD[path].refuse_lost()


def _claim(lease: TableLease) -> bool:
    """Of two that saw the same row one is refused; one that saw an old row finds a higher number than its own."""
    if not lease.put_next(_holder(lease.kind)):
        return False
    try:
        return not _row(lease.folder, after=lease.number)
    except EndpointError:
        # Nobody would renew it, and all others would wait until it is two minutes old.
        with suppress(EndpointError):
            lease.put_next("")
        raise


def _give_back(lease: TableLease) -> None:
    if not lease.put_next("") and lease.kind == SPARK:
        raise TableHeldError(
            f"{lease.folder.path}: another writer took the table while Spark wrote it, which may have lost a commit; "
            "run ./cdc reconcile",
            is_lost=True,
        )
    names = _row(lease.folder)
    lease.folder.map(lambda name: lease.folder.delete(f"{FOLDER}/{name}"), [n for n in names if n < _name(lease.number)])


def _row(folder: ObjectFolder, *, after: int = 0) -> list[str]:
    """The names of the row behind a number. Some stores list others beside them: s3proxy a put that is on its way, as N.json-…"""
    return [name for name in folder.names(FOLDER, after=_name(after)) if _NAME.fullmatch(name)]


def _newest(folder: ObjectFolder) -> _Claim:
    while True:
        names = _row(folder)
        if not names:
            return _Claim(0, "", "", 0.0)
        try:
            newest = folder.read_aged(f"{FOLDER}/{names[-1]}")
        except FileNotFoundError:
            # Given back meanwhile, which removes what is older.
            continue
        claim = json.loads(newest.content)
        if refusal := other_format(f"{folder.path}/{FOLDER}/{names[-1]}", "a lease", claim.get("cdc_assets"), FORMAT):
            raise TableHeldError(refusal)
        return _Claim(int(names[-1].partition(".")[0]), claim["token"], claim["holder"], newest.seconds)


def _put(folder: ObjectFolder, number: int, token: str, holder: str) -> bool:
    """Whether it is ours: where the answer to the write was lost, what is there tells."""
    name = f"{FOLDER}/{_name(number)}"
    content = json.dumps({"cdc_assets": FORMAT, "token": token, "holder": holder}).encode()
    if folder.put_if_absent(name, content):
        return True
    try:
        return folder.read(name) == content
    except FileNotFoundError:
        return False


def _name(number: int) -> str:
    return f"{number:020}.json"


def _holder(kind: str) -> str:
    return f"{kind} ({socket.gethostname()}, process {os.getpid()})"


LOCK_FILE = "_cdc_writer"
"""The file in the table's folder; Delta's VACUUM leaves names alone that begin with an underscore."""
MARK_SECONDS = 120.0
_LOCK_POLL_SECONDS, _SPARK_WAITS = 0.02, 900.0
_MARK = b"spark\n"


@contextmanager
def lend_to_spark(path: str, *, seconds: float | None = None) -> Iterator[None]:
    """For as long as a client of Spark writes the table. The mark stays where that ends by an error: the server may go on.

    Raises:
        TableHeldError: in an object store, somebody else writes it for longer than `seconds` (a quarter of an hour).
        LeftToSparkError: on a disk, somebody else writes it for longer than `seconds`, where these are given.
    """
    if is_object(path):
        with hold(path, SPARK, seconds=_SPARK_WAITS if seconds is None else seconds):
            yield
        return
    if not is_local(path):
        yield
        return
    with _hold_lock(path, seconds=seconds) as file:
        others = _mark_age(file) is not None
        os.pwrite(file, _MARK, 0)
        try:
            yield
        except TableStopError:
            # Our own word, between two statements: nothing of it is at work in the server.
            if not others:
                os.ftruncate(file, 0)
            raise
        if not others:
            os.ftruncate(file, 0)


@contextmanager
def lend_to_task(path: str, *, seconds: float = 10.0) -> Iterator[None]:
    """For as long as a task writes the table.

    Raises:
        LeftToSparkError: somebody else writes it for longer than `seconds`, or a writer of Spark was cut off just now.
    """
    if is_object(path):
        with _lend_object(path, seconds):
            yield
        return
    with _hold_lock(path, seconds=seconds) as file:
        if _mark_age(file) is not None:
            raise LeftToSparkError("a writer of Spark was cut off here, and may still be at work")
        yield


@contextmanager
def _lend_object(path: str, seconds: float) -> Iterator[None]:
    try:
        lease = take(path, TASK, seconds=seconds)
    except TableHeldError as error:
        raise LeftToSparkError(str(error)) from error
    with keep(lease):
        yield


@contextmanager
def _hold_lock(path: str, *, seconds: float | None = None) -> Iterator[int]:
    make_folder(Path(path))
    file = os.open(Path(path, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = None if seconds is None else time.monotonic() + seconds
    try:
        if until is None:
            fcntl.flock(file, fcntl.LOCK_EX)
        while until is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise LeftToSparkError(f"{path} is being written by somebody else") from None
                time.sleep(_LOCK_POLL_SECONDS)
        yield file
    finally:
        os.close(file)


def _mark_age(file: int) -> float | None:
    """Seconds since a writer of Spark began that has not ended; None where there is none, or none that can still be at work."""
    if not os.pread(file, 1, 0):
        return None
    age = max(0.0, time.time() - os.fstat(file).st_mtime)
    return age if age <= MARK_SECONDS else None
