"""What a process asks of the machine, and whether the machine has more to do than it can. Linux's /proc only.

A process that is slow runs, or waits for a CPU. One that hangs does neither: that tells them apart on a machine with any load.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

# Shares of the last 10 seconds in which something waited (PSI, `some avg10`), in percent.
_BUSY_SHARES = {"cpu": 40.0, "memory": 20.0, "io": 40.0}
# Runnable processes for each CPU (load average of a minute) that are too many, where the kernel keeps no PSI.
_BUSY_LOAD = 2.0
_PRESSURE = ("/proc/pressure/{}", "/sys/fs/cgroup/{}.pressure")

Demand = dict[tuple[int, str], float]
"""Seconds on a CPU, or in a queue for one, by process and thread."""


def demand_of(pid: int) -> Demand:
    """Of the process and all its descendants since each thread began; empty when it has gone."""
    found: Demand = {}
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            found |= _threads(member)
    return found


def _threads(process: psutil.Process) -> Demand:
    """By /proc/PID/task/TID/schedstat: nanoseconds on a CPU, nanoseconds in its queue, number of turns."""
    found: Demand = {}
    try:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            ran, queued, _ = (task / "schedstat").read_text().split()
            found[process.pid, task.name] = (int(ran) + int(queued)) / 1e9
    except OSError:
        # A thread that has ended meanwhile, or a kernel without it: then what the process ran, as a whole.
        with suppress(psutil.Error):
            times = process.cpu_times()
            return {(process.pid, "all"): times.user + times.system}
    return found


def demand_between(before: Demand, after: Demand) -> float:
    """Seconds; threads that have begun meanwhile count whole, those that have ended not at all."""
    return sum(max(0.0, seconds - before.get(thread, 0.0)) for thread, seconds in after.items())


def pressure(resource: str) -> float | None:
    """The share of the last 10 seconds, in percent, in which a process waited for `cpu`, `memory` or `io`; None: not told."""
    shares = []
    for place in _PRESSURE:
        with suppress(OSError, ValueError, IndexError):
            # some avg10=1.23 avg60=… avg300=… total=…
            shares.append(float(Path(place.format(resource)).read_text().split()[1].partition("=")[2]))
    return max(shares, default=None)


def is_busy() -> bool:
    """Whether processes wait for CPU, memory or disk so much that all of them are slow."""
    if any((pressure(resource) or 0.0) >= limit for resource, limit in _BUSY_SHARES.items()):
        return True
    return os.getloadavg()[0] >= _BUSY_LOAD * len(os.sched_getaffinity(0))
