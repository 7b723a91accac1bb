"""What the threads of the Spark server have worked, by what they are for: Linux tells it of every process of one's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DRIVER = "driver"
_BEGINNINGS = {
    "Executor task": "executor",
    "C1 Comp": "compiler",
    "C2 Comp": "compiler",
    "VM Thread": "collector",
    "GC Thread": "collector",
}
"""Of names, of which Linux keeps 15 letters. The serial collector works in the VM's own thread."""
_PROC = Path("/proc")


def thread_times(pid: int, proc: Path = _PROC) -> dict[tuple[str, str], float]:
    """CPU seconds of each living thread so far, by its id and what it is for: executor, driver, compiler or collector.

    Empty where there is no /proc.
    """
    found, tick = {}, os.sysconf("SC_CLK_TCK")
    for thread in (proc / str(pid) / "task").glob("*"):
        try:
            # `id (name) state …`, and the name may hold brackets and spaces; utime and stime are the 14th and 15th.
            name, _, rest = thread.joinpath("stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")
        except OSError:
            continue  # it has ended meanwhile
        fields, name = rest.split(), name.partition("(")[2]
        purpose = next((what for beginning, what in _BEGINNINGS.items() if name.startswith(beginning)), DRIVER)
        found[thread.name, purpose] = (int(fields[11]) + int(fields[12])) / tick
    return found


def work_since(before: Mapping[tuple[str, str], float], now: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """CPU seconds by purpose between the two; what a thread did that has ended meanwhile is not told."""
    worked: dict[str, float] = {}
    for thread, seconds in now.items():
        worked[thread[1]] = worked.get(thread[1], 0.0) + seconds - before.get(thread, 0.0)
    return {purpose: round(seconds, 2) for purpose, seconds in sorted(worked.items())}
