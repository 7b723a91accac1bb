"""One writer per table, and several tables of a source at the same time, where one table's failure is its own.

Released Delta cannot have two drivers on one table on a local disk or on S3 (delta-io/delta#1830, #3596), and
an append of one range by two runs at once would not conflict at all. So two runs on one table take turns, also when started by
different people. The lock is the kernel's (flock), so a killed run leaves none behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, FailuresError, TableBusyError
from cdc_assets.registry.table_declaration import Table

_POLL_SECONDS = 0.1


def layer_of_lake(layer: str, lake: str) -> str:
    """The layer's name for tables in this lake: those of a copy beside it have locks of their own."""
    return layer if lake == settings.lake() else f"{layer}@{hashlib.sha256(lake.encode()).hexdigest()[:16]}"


@contextmanager
def table_lock(layer: str, source: str, table: str, *, deadline: float = 900.0, folder: Path | None = None) -> Iterator[None]:
    """Hold the table for the block. Raises TableBusyError: when another run holds it beyond the deadline; names its process."""
    folder = folder or settings.home() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{layer}.{source}.{table}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + deadline
    try:
        while not _is_taken(descriptor):
            if time.monotonic() > until:
                holder = path.read_text(encoding="ascii") or "unknown"
                raise TableBusyError(f"{layer}/{source}/{table} is held by process {holder} for more than {deadline:.0f} s")
            time.sleep(_POLL_SECONDS)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def turn_of(kind: str, ended: threading.Event) -> Iterator[None]:
    """One at a time of what this home does of a kind; whoever holds it is waited for, however long.
    Raises InterruptedError: `ended` was set meanwhile."""
    folder = settings.home() / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{kind}.turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _is_taken(descriptor):
            if ended.wait(_POLL_SECONDS):
                raise InterruptedError(f"it waited for its turn among {kind}")
        yield
    finally:
        os.close(descriptor)


Result = TypeVar("Result")


def each_table(
    layer: str,
    tables: Sequence[Table],
    work: Callable[[Table], Result],
    *,
    workers: int = 4,
    failures: dict[str, str] | None = None,
) -> Iterator[tuple[Table, Result]]:
    """Yield `(table, result)` as each is done.
    Raises FailuresError: at the end, naming the tables that failed (`failures` may bring earlier ones)."""
    failed = dict(failures or {})
    with ThreadPoolExecutor(max_workers=max(1, min(workers, len(tables))), thread_name_prefix=layer) as pool:
        futures = {pool.submit(work, table): table for table in tables}
        for future in as_completed(futures):
            table = futures[future]
            try:
                result = future.result()
            except CdcAssetsError as error:
                failed[names.table_name(table)] = str(error)
                continue
            yield table, result
    if failed:
        raise FailuresError.of_tables(layer, failed)
