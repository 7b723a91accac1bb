"""Who else could read what a running stack has written: the modes of its files, and of every file that it holds open."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def open_to_others(home: Path, processes: Iterable[int]) -> list[str]:
    """`mode path` of what group or others may read, write or enter: below `home`, and opened for writing by these processes or
    their children, wherever that is."""
    found = {path for path in (home, *home.rglob("*")) if not path.is_symlink()}
    for pid in processes:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                found |= {Path(file.path) for file in process.open_files() if file.mode != "r"}
    told = []
    for path in found:
        # Files come and go while the stack works.
        with suppress(FileNotFoundError):
            status = path.lstat()
            if status.st_mode & _OTHERS and not stat.S_ISSOCK(status.st_mode):
                told.append(f"{stat.filemode(status.st_mode)} {path}")
    return sorted(told)


@contextmanager
def private_files() -> Iterator[None]:
    """What this process writes is open to others no more than what the stack writes."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
