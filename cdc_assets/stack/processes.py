"""Processes of a stack as Linux's /proc shows them: what they ask of the machine, their memory, and orphans.

A process that is slow runs, or waits for a CPU. One that hangs does neither: that tells them apart under any load. Orphans
outlived their supervisor: they bear a mark in their environment and are ended before the next start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from cdc_assets.stack.home import Home

# Shares of the last 10 seconds in which something waited (PSI, `some avg10`), in percent.
_BUSY_SHARES = {"cpu": 40.0, "memory": 20.0, "io": 40.0}
# Runnable processes for each CPU (load average of a minute) that are too many, where the kernel keeps no PSI.
_BUSY_LOAD = 2.0
_PRESSURE = ("/proc/pressure/{}", "/sys/fs/cgroup/{}.pressure")

Demand = dict[tuple[int, str], float]
"""Seconds on a CPU, or in a queue for one, by process and thread."""


def demand_of(pid: int) -> Demand:
    """Of the process and all its descendants since each thread began; empty when it has gone."""
    demand: Demand = {}
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            demand |= _threads(member)
    return demand


def _threads(process: psutil.Process) -> Demand:
    """By /proc/PID/task/TID/schedstat: nanoseconds on a CPU, nanoseconds in its queue, number of turns."""
    demand: Demand = {}
    try:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            ran, queued, _ = (task / "schedstat").read_text().split()
            demand[process.pid, task.name] = (int(ran) + int(queued)) / 1e9
    except OSError:
        # A thread that has ended meanwhile, or a kernel without it: then what the process ran, as a whole.
        with suppress(psutil.Error):
            times = process.cpu_times()
            return {(process.pid, "all"): times.user + times.system}
    return demand


def demand_between(before: Demand, after: Demand) -> float:
    """Seconds; threads that have begun meanwhile count whole, those that have ended not at all."""
    return sum(max(0.0, seconds - before.get(thread, 0.0)) for thread, seconds in after.items())


def pressure(resource: str) -> float | None:
    """The share of the last 10 seconds, in percent, in which a process waited for `cpu`, `memory` or `io`; None: not told."""
    shares = []
    for file in _PRESSURE:
        with suppress(OSError, ValueError, IndexError):
            # some avg10=1.23 avg60=… avg300=… total=…
            shares.append(float(Path(file.format(resource)).read_text().split()[1].partition("=")[2]))
    return max(shares, default=None)


def is_busy() -> bool:
    """Whether processes wait for CPU, memory or disk so much that all of them are slow."""
    if any((pressure(resource) or 0.0) >= limit for resource, limit in _BUSY_SHARES.items()):
        return True
    return os.getloadavg()[0] >= _BUSY_LOAD * len(os.sched_getaffinity(0))


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


MARK = "CDC_STACK_HOME"


def find_orphans(home: Home) -> list[psutil.Process]:
    """Every other process that carries this home's mark: components die with the supervisor (see `child.py`), and what they have
    started themselves, such as a Dagster run, may not.
    """
    orphans = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home.root):
                orphans.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            # Another user's, or gone while we looked: none of ours.
            continue
    return orphans


def end_orphans(home: Home, *, grace: float = 5) -> int:
    """End them; returns how many there were."""
    orphans = find_orphans(home)
    for process in orphans:
        process.terminate()
    _, alive = psutil.wait_procs(orphans, timeout=grace)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=grace)
    return len(orphans)
