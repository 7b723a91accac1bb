"""Processes of a stack whose supervisor is gone: found by a mark in their environment, ended before the next start.

Components die with the supervisor (see `child.py`); what they have started themselves, such as a Dagster run, may not.
"""

from __future__ import annotations

import os

import psutil

from cdc_assets.stack.home import Home

MARK = "CDC_STACK_HOME"


def find(home: Home) -> list[psutil.Process]:
    """Every other process that carries this home's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == str(home.root):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            # Another user's, or gone while we looked: none of ours.
            continue
    return found


def end(home: Home, *, grace: float = 5) -> int:
    """End them; returns how many there were."""
    found = find(home)
    for process in found:
        process.terminate()
    _, alive = psutil.wait_procs(found, timeout=grace)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=grace)
    return len(found)
