"""What the whole stack takes while nothing changes: shares of a core, and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from cdc_assets.bench.carry import Took

_GB = 1e9


def processes(root: int) -> list[psutil.Process]:
    """The process and all that it has started; none that has gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def cpu_seconds(root: int) -> float:
    """Of the process and all that it has started, those that have ended and were waited for included."""
    total = 0.0
    for process in processes(root):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += sum(process.cpu_times()[:4])
    return total


def memory_gb(root: int) -> float:
    """Of all of them together, in 10^9 bytes; what several share counts once (PSS)."""
    total = 0
    for process in processes(root):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_full_info().pss
    return total / _GB


def watch(supervisor: int, *, seconds: float, windows: int, say: Callable[[str], None]) -> tuple[list[Took], list[Took]]:
    """By window: shares of a core with the CPU seconds behind them, and gigabytes."""
    cores, memory = [], []
    for number in range(windows):
        say(f"at rest: window {number + 1} of {windows}, {seconds:.0f} s each")
        began, before = time.monotonic(), cpu_seconds(supervisor)
        time.sleep(seconds)
        used = cpu_seconds(supervisor) - before
        cores.append(Took(used / (time.monotonic() - began), used))
        memory.append(Took(memory_gb(supervisor), used))
    return cores, memory
