"""Ctrl-C and SIGTERM end a command with what it has asked Spark for: a server goes on with a job whose client has gone away."""

from __future__ import annotations

import signal
import sys
import threading


def end_jobs_on_signals() -> None:
    """From now on, until a command takes these signals for itself. What is ignored (nohup) stays so."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(*_: object) -> None:
    """Jobs end in a thread of its own, for which the process waits: this one may be in the midst of a call to Spark.

    Raises:
        KeyboardInterrupt: always.
    """
    if spark := sys.modules.get("cdc_assets.resources.spark"):
        threading.Thread(target=spark.end_jobs, name="end of jobs").start()
    raise KeyboardInterrupt
