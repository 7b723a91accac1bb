"""Answers from Delta logs that are kept until the log has another commit.

Sensors and waiting commands ask each table again every few seconds, and almost always nothing has changed: a look at the log's
folder takes 5 µs, to open the table 5 ms of CPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from spark.delta.local_log import newest_here
from spark.lake.place import is_object

Answer = TypeVar("Answer")
# A folder's time moves on in steps, 4 ms on most kernels and up to 2 s on some file systems: two commits may share one.
_SETTLED_NS = 3_000_000_000


@dataclass(frozen=True)
class SeenLog:
    """A log as it was before it was read: its newest commit (name, inode, time) and its folder's time."""

    newest: tuple[str, int, int]
    folder_ns: int
    settled: bool


_KEPT: dict[tuple[str, str], tuple[SeenLog, Any]] = {}


def unless_changed(read: Callable[[str], Answer], path: str) -> Answer:
    """What `read` says of the table at the path: read anew only where the log has another newest commit since.

    A table in an object store is read each time: to list it costs as much as to open it.
    """
    if is_object(path):
        return read(path)
    key, log = (read.__name__, path), Path(path, "_delta_log")
    kept = _KEPT.get(key)
    seen = _look(log, kept[0] if kept else None)
    if seen is None:
        _KEPT.pop(key, None)
        return read(path)
    # What is committed while it is read makes the next question read again.
    found: Answer = kept[1] if kept and kept[0].newest == seen.newest else read(path)
    _KEPT[key] = (seen, found)
    return found


def _look(log: Path, before: SeenLog | None) -> SeenLog | None:
    """The log now; None where it has no commit. A table that was made again has commits of the same names, not files."""
    try:
        folder_ns = log.stat().st_mtime_ns
        if before is not None and before.settled and before.folder_ns == folder_ns:
            return before
        now, version = time.time_ns(), newest_here(str(log.parent))
        name = f"{version:020}.json" if version is not None else _newest_listed(log)
        if name is None:
            return None
        newest = (log / name).stat()
    except OSError:
        return None
    return SeenLog((name, newest.st_ino, newest.st_mtime_ns), folder_ns, settled=now - folder_ns > _SETTLED_NS)


def _newest_listed(log: Path) -> str | None:
    return max((entry for entry in os.listdir(log) if entry.endswith(".json")), default=None)  # noqa: PTH208 (twice as fast)
