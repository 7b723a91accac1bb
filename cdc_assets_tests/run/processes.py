"""The processes below one: their processor seconds, and how many JVMs were started, by Linux's /proc."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOKS = 0.5
"""Seconds between two looks for new JVMs; one takes longer than that to start and end."""
_CLASS = re.compile(r"[a-z]\w*(\.\w+)+")


@dataclass(frozen=True)
class _Process:
    """One line of /proc/PID/stat; `seconds` are its own and those of the children that it has waited for."""

    pid: int
    parent: int
    started: int
    name: str
    seconds: float

    @property
    def key(self) -> tuple[int, int]:
        """A number is given again, the time of its start is not."""
        return self.pid, self.started


class Processes:
    """A process and all below it; what its parent has left is told by a mark in the environment.

    Without /proc the seconds are those of this process and of its children that have ended, and no JVM is counted.
    """

    def __init__(self, mark: str, root: int | None = None) -> None:
        self._root = root or os.getpid()
        self._mark = f"{mark}={self._root}-{os.urandom(4).hex()}"
        if root is None:
            name, _, value = self._mark.partition("=")
            os.environ[name] = value
        self._ours: dict[tuple[int, int], bool] = {}
        self._left: dict[tuple[int, int], float] = {}
        self._ended = 0.0
        self._jvms: dict[tuple[int, int], str] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()

    @property
    def jvms(self) -> dict[str, int]:
        """How many were seen until now, by what they run: `{"Kafka": 3}`."""
        return dict(Counter(self._jvms.values()).most_common())

    def watch(self) -> None:
        """Look now and then, in a thread, until `end`."""
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """No more looks."""
        self._done.set()

    def look(self) -> float:
        """The processor seconds until now."""
        if not _PROC.is_dir():
            times = os.times()
            return times.user + times.system + times.children_user + times.children_system
        with self._lock:
            return self._look()

    def _watch(self) -> None:
        while not self._done.wait(_LOOKS):
            self.look()

    def _look(self) -> float:
        rows = {process.pid: process for process in _processes()}
        total, left = 0.0, {}
        for process in rows.values():
            if process.key not in self._ours or (process.name == "java" and process.key not in self._jvms):
                # A child that has not become another program yet has its parent's name.
                self._ours[process.key] = self._is_ours(process, rows)
            if not self._ours[process.key]:
                continue
            if process.name == "java" and process.key not in self._jvms:
                self._jvms[process.key] = _java_program(process.pid)
            total += process.seconds
            parent = rows.get(process.parent)
            if process.pid != self._root and (parent is None or not self._ours.get(parent.key)):
                left[process.key] = process.seconds
        # Nobody of ours waits for these: their seconds would end with them.
        self._ended += sum(seconds for key, seconds in self._left.items() if key not in left and key[0] not in rows)
        self._left = left
        return total + self._ended

    def _is_ours(self, process: _Process, rows: dict[int, _Process]) -> bool:
        above: _Process | None = process
        for _ in range(64):
            if above is None:
                break
            if above.pid == self._root:
                return True
            above = rows.get(above.parent)
        try:
            return self._mark.encode() in (_PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            return False


def _java_program(pid: int) -> str:
    """The name of its main class, or of its jar."""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        return "java"
    if "--class" in arguments:
        return arguments[arguments.index("--class") + 1].rpartition(".")[2]
    if "-jar" in arguments:
        return Path(arguments[arguments.index("-jar") + 1]).name
    return next((name.rpartition(".")[2] for name in arguments[1:] if _CLASS.fullmatch(name)), "java")


def _processes() -> Iterator[_Process]:
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            # It has ended meanwhile.
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: utime, stime, cutime and cstime are 14 to 17.
        seconds = sum(map(int, fields[11:15])) / _TICKS
        yield _Process(int(folder.name), int(fields[1]), int(fields[19]), name, seconds)
