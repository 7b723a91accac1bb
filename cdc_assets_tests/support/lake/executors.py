"""The executors of a standalone cluster, one of which is killed in the middle of a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

LOST = "ExecutorLostFailure"
"""What the driver says of a task that was lost with its executor."""


def has_running_task(said: str) -> bool:
    """Whether an executor's log tells of a task that has not ended."""
    return said.count("Running task") > said.count("Finished task")


@dataclass
class Executors:
    """`work` is the workers' folder, which holds one folder for each executor; `log` is the driver's."""

    work: Path
    log: Path
    _processes: dict[Path, psutil.Process] = field(default_factory=dict)

    def logs(self) -> list[Path]:
        """Of those that live, and of those that were killed."""
        return sorted(self.work.glob("app-*/*/stderr"))

    def process(self, log: Path) -> psutil.Process | None:
        """It is told from others by its folder; None: it has ended, or not begun."""
        if log not in self._processes:
            for found in psutil.process_iter(["cmdline", "cwd"]):
                if found.info["cwd"] == str(log.parent) and any("ExecutorBackend" in w for w in found.info["cmdline"] or ()):
                    self._processes[log] = found
        process = self._processes.get(log)
        return process if process is not None and process.is_running() else None

    @contextmanager
    def one_killed(self, within: Callable[[str], bool] = has_running_task) -> Iterator[None]:
        """In the block the first executor is killed of whose log, from here on, `within` holds.

        Raises:
            AssertionError: none was, or the driver has lost no task with it.
        """
        before = {log: log.stat().st_size for log in self.logs()}
        killed, over = threading.Event(), threading.Event()
        told = self.log.read_text().count(LOST)

        def watch() -> None:
            while not over.is_set() and not killed.is_set():
                for log in self.logs():
                    if within(said(log)) and self._kill_within(log, lambda log=log: within(said(log))):  # type: ignore[misc]
                        killed.set()
                        break
                time.sleep(0.003)

        def said(log: Path) -> str:
            with log.open(errors="replace") as file:
                file.seek(before.get(log, 0))
                return file.read()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        assert killed.is_set(), "no executor was in the middle of it"
        assert self.log.read_text().count(LOST) > told, "the kill fell beside the job's tasks"

    def _kill_within(self, log: Path, holds: Callable[[], bool]) -> bool:
        """Once it stands still, and what it has written has come, it is looked at again: then nothing of it can end any more."""
        process = self.process(log)
        if process is None:
            return False
        process.suspend()
        time.sleep(0.05)
        if holds():
            process.kill()
            return True
        process.resume()
        return False
