"""What processes take: seconds of a core, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import psutil

_GB = 1e9


def processes(root: int) -> list[psutil.Process]:
    """The process and all that it has started; none that has gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def cpu_seconds(root: int) -> float:
    """Of the process and all that it has started, those that have ended and were waited for included."""
    return sum(map(sum, cpu_by_process(root).values()))


def cpu_by_process(root: int) -> dict[int, tuple[float, float]]:
    """By process: seconds of its own, and of the children that it waited for."""
    found = {}
    for process in processes(root):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            user, system, children_user, children_system, *_ = process.cpu_times()
            found[process.pid] = (user + system, children_user + children_system)
    return found


def cpu_between(before: Mapping[int, tuple[float, float]], after: Mapping[int, tuple[float, float]]) -> float:
    """Seconds that were used from one look to the other.

    A process that has gone meanwhile brings what it had used before into its parent's second figure, where the parent waited
    for it; one whose parent had gone brings nothing, and what it used since the first look is not counted.
    """
    own = sum(now - before.get(pid, (0.0, 0.0))[0] for pid, (now, _) in after.items())
    of_children = sum(now - before.get(pid, (0.0, 0.0))[1] for pid, (_, now) in after.items())
    gone = sum(sum(used) for pid, used in before.items() if pid not in after)
    return own + max(0.0, of_children - gone)


def memory_gb(root: int) -> float:
    """Of all of them together, in 10^9 bytes; what several share counts once (PSS)."""
    total = 0
    for process in processes(root):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_full_info().pss
    return total / _GB
