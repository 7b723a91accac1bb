"""Log files of the components: appended to over restarts, bounded in size.

Children write to the file themselves (O_APPEND), so that nothing is lost or held up when the supervisor is busy. A file
that grows too large is copied away and truncated in place, as logrotate's copytruncate does it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MAX_BYTES = 20 * 1024 * 1024
KEPT = 3


def open_log(file: Path) -> int:
    """A descriptor that appends to the file, 0600."""
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def rotate(file: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> bool:
    """Move a file's content aside when it is too large."""
    try:
        if file.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(kept, 1, -1):
        older = file.with_name(f"{file.name}.{number - 1}")
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number}"))
    copy = file.with_name(f"{file.name}.1")
    with os.fdopen(open_log(copy), "wb") as target, file.open("rb") as source:
        shutil.copyfileobj(source, target)
    os.truncate(file, 0)
    return True


def tail(file: Path, lines: int) -> list[str]:
    """The last lines of a file."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 400 * lines - 4096))
            return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
