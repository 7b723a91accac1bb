"""What the supervisor sees of each component, written to state.json for `cdc up`, `cdc status` and people."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from cdc_assets.stack.home import Home, read_json, write_json

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
    told = {"supervisor": state.supervisor, "components": [asdict(c) for c in state.components]}
    # Every second while things start: the loop that writes it must not wait for a busy disk.
    write_json(home.state, told, durable=False)


def read_state(home: Home) -> StackState | None:
    """What the last supervisor wrote; it may be gone since (see `holder.supervisor_pid`)."""
    raw: dict[str, Any] = read_json(home.state)
    if not raw:
        return None
    known = {field.name for field in fields(ComponentState)}
    found = tuple(ComponentState(**{k: v for k, v in c.items() if k in known}) for c in raw["components"])
    return StackState(raw["supervisor"], found)
