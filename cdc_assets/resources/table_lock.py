"""One writer per table: two runs on one Delta table take turns, also when started by different people.

Released Delta cannot have two drivers on one table on a local disk or on S3 (delta-io/delta#1830, #3596), and
an append of one range by two runs at once would not conflict at all. The lock is the kernel's (flock), so a
killed run leaves none behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_assets import settings
from cdc_assets.errors import TableBusyError

_POLL_SECONDS = 0.1


def layer_of_lake(layer: str, lake: str) -> str:
    """The layer's name for tables in this lake: those of a copy beside it have locks of their own."""
    return layer if lake == settings.lake() else f"{layer}@{hashlib.sha256(lake.encode()).hexdigest()[:16]}"


@contextmanager
def table_lock(layer: str, source: str, table: str, *, deadline: float = 900.0, folder: Path | None = None) -> Iterator[None]:
    """Hold the table for the block.

    Raises:
        TableBusyError: when another run holds it beyond the deadline; names its process.
    """
    folder = folder or settings.home() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{layer}.{source}.{table}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + deadline
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    holder = path.read_text(encoding="ascii") or "unknown"
                    raise TableBusyError(
                        f"{layer}/{source}/{table} is held by process {holder} for more than {deadline:.0f} s"
                    ) from None
                time.sleep(_POLL_SECONDS)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)
