"""Memory of the processes of a stack."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def resident_bytes(pids: Iterable[int]) -> dict[int, int]:
    """Of each process and its children, 0 where there is none any more; shared pages are counted once (PSS) where the kernel
    tells. All at once: to find the children every process of the machine is looked at."""
    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
    return {pid: sum(map(_own_bytes, _family(pid, children))) for pid in pids}


def _family(pid: int, children: dict[int, list[psutil.Process]]) -> Iterable[psutil.Process]:
    try:
        yield psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    for child in children.get(pid, ()):
        yield from _family(child.pid, children)


def _own_bytes(process: psutil.Process) -> int:
    try:
        try:
            return int(process.memory_full_info().pss)
        except psutil.AccessDenied:
            return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
