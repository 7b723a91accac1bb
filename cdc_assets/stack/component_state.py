"""What is seen of each component while it runs: its state in state.json, and its log file.

The supervisor writes the state for `cdc up`, `cdc status` and people. Children write to their logs themselves (O_APPEND), so
that nothing is lost or held up when the supervisor is busy. A log that grows too large is copied away and truncated in place.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cdc_assets.registry.durable_file import replace_json
from cdc_assets.stack.home import Home, read_json

WAITING, STARTING, HEALTHY, UNHEALTHY, BACKOFF, FAILED, STOPPING, STOPPED = (
    "waiting",
    "starting",
    "healthy",
    "unhealthy",
    "restarting",
    "failed",
    "stopping",
    "stopped",
)


@dataclass
class ComponentState:
    """One component, now. `detail` says why it is in this state."""

    name: str
    address: str
    log: str
    health: str = WAITING
    pid: int | None = None
    restarts: int = 0
    since: float = 0.0
    started_in: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class StackState:
    """All components, and the supervisor's pid."""

    supervisor: int
    components: tuple[ComponentState, ...]

    @property
    def healthy(self) -> bool:
        """Everything does its work."""
        return bool(self.components) and all(c.health == HEALTHY for c in self.components)

    @property
    def failed(self) -> ComponentState | None:
        """The first component that was given up."""
        return next((c for c in self.components if c.health == FAILED), None)


def write_state(home: Home, state: StackState) -> None:
    """Replace state.json, without waiting for the disk."""
    document = {"supervisor": state.supervisor, "components": [asdict(c) for c in state.components]}
    # Every second while things start: the loop that writes it must not wait for a busy disk.
    replace_json(home.state, document, durable=False)


def read_state(home: Home) -> StackState | None:
    """What the last supervisor wrote; it may be gone since (see `home.supervisor_pid`)."""
    raw: dict[str, Any] = read_json(home.state)
    if not raw:
        return None
    return StackState(raw["supervisor"], tuple(ComponentState(**component) for component in raw["components"]))


MAX_BYTES = 20 * 1024 * 1024
KEPT = 3


def open_log(file: Path) -> int:
    """A descriptor that appends to the file, 0600."""
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def rotate(file: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> bool:
    """Copy a file's content away when it is too large, and truncate it in place, as logrotate's copytruncate does it."""
    try:
        if file.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(kept, 1, -1):
        older = file.with_name(f"{file.name}.{number - 1}")
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number}"))
    copy = file.with_name(f"{file.name}.1")
    with os.fdopen(open_log(copy), "wb") as target, file.open("rb") as source:
        shutil.copyfileobj(source, target)
    os.truncate(file, 0)
    return True


def tail(file: Path, lines: int) -> list[str]:
    """The last lines of a file."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 400 * lines - 4096))
            return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
