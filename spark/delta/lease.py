"""Whose turn it is to write a table: Spark's, or a task's.

Delta's store for local files guards a commit within its own JVM only (delta-io/delta#1830): Spark, that is just writing, may
put its commit over one of a task. So both take the kernel's lock on a file in the table's folder, which ends with its process.

What the lock cannot tell: a client of Spark is killed, and its statement goes on in the server, which gives it up after half a
minute (spark.delta.session, detachedTimeout). So Spark's writer leaves a mark in the file for as long as it writes, and a task
does not write while a mark is there that is not older than TWO_MINUTES. Then Spark does, as it can beside itself.

A table in an object store has a lease instead (spark.lake.object_lease).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark.errors import LeaseHeldError, LeftToSparkError, SchemaMismatchError
from spark.lake import object_lease
from spark.lake.folder import make_folder
from spark.lake.place import is_local, is_object

NAME = "_cdc_writer"
"""The file in the table's folder; Delta's VACUUM leaves names alone that begin with an underscore."""
TWO_MINUTES = 120.0
_POLL_SECONDS, _SPARK_WAITS = 0.02, 900.0
_MARK = b"spark\n"


@contextmanager
def lend_to_spark(path: str, *, seconds: float | None = None) -> Iterator[None]:
    """For as long as a client of Spark writes the table. The mark stays where that ends by an error: the server may go on.

    Raises:
        LeaseHeldError: in an object store, somebody else writes it for longer than `seconds` (a quarter of an hour).
        LeftToSparkError: on a disk, somebody else writes it for longer than `seconds`, where these are given.
    """
    if is_object(path):
        with object_lease.hold(path, object_lease.SPARK, seconds=_SPARK_WAITS if seconds is None else seconds):
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
        except SchemaMismatchError:
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
        lease = object_lease.take(path, object_lease.TASK, seconds=seconds)
    except LeaseHeldError as error:
        raise LeftToSparkError(str(error)) from error
    with object_lease.keep(lease):
        yield


@contextmanager
def _hold_lock(path: str, *, seconds: float | None = None) -> Iterator[int]:
    make_folder(Path(path))
    file = os.open(Path(path, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
                time.sleep(_POLL_SECONDS)
        yield file
    finally:
        os.close(file)


def _mark_age(file: int) -> float | None:
    """Seconds since a writer of Spark began that has not ended; None where there is none, or none that can still be at work."""
    if not os.pread(file, 1, 0):
        return None
    age = max(0.0, time.time() - os.fstat(file).st_mtime)
    return age if age <= TWO_MINUTES else None
