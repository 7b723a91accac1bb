"""How a connector goes on: resumed, restarted by a person, or by itself, and never past a first snapshot that is not done.

A failed connector is restarted by itself after n² + n minutes the n-th time again, seven times; then a person is asked. The
rhythm is Strimzi's (KafkaConnector.spec.autoRestart): at once, then after 2, 6, 12, 20, 30, 42 minutes. Most failures are a
database or broker that was away for a while; what seven restarts in about two hours do not mend, an eighth does not.

Debezium tells that a snapshot begins before it knows a place in the log, and Connect stores an empty offset with that. Killed
or failed before its first row, the connector takes the empty offset for that of a snapshot which is done, and reads the changes
alone. With an offset that names an unfinished snapshot it begins the snapshot anew, however often it dies in between.
https://github.com/debezium/debezium, 3.7: SinkNotificationChannel.send, RelationalSnapshotChangeEventSource.getSnapshottingTask
MariaDB and MySQL cannot begin so: Debezium makes their schema history's topic only for a connector without any offset. An empty
offset of theirs is forgotten instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from cdc_assets.clients.connector_states import SourceOffset

if TYPE_CHECKING:
    from cdc_assets.clients.connect import ConnectClient

_POSTGRESQL = "io.debezium.connector.postgresql.PostgresConnector"
_WITH_ROWS = ("initial", "initial_only")
_UNFINISHED = {"snapshot": "INITIAL", "snapshot_completed": False, "last_snapshot_record": False}


def begin_unfinished(connect: ConnectClient, config: Mapping[str, str]) -> None:
    """Let the connector, STOPPED and without a place in the log, take its whole snapshot at its start, and at each until it has.

    Nothing is done to one that has a place, or that takes no snapshot of rows.
    """
    name, offsets = config["name"], connect.offsets(config["name"])
    if not _takes_snapshot(config) or has_place(offsets):
        return
    if config["connector.class"] == _POSTGRESQL:
        connect.patch_offsets(name, [SourceOffset({"server": config["topic.prefix"]}, _UNFINISHED)])
    elif offsets:
        connect.reset_offsets(name)


def resume_connector(connect: ConnectClient, name: str) -> None:
    """Let a paused or stopped connector run; one that has read nothing takes its snapshot."""
    config, status = connect.config(name), connect.status(name)
    if config is not None and status is not None and status.stopped:
        begin_unfinished(connect, {**config, "name": name})
    connect.resume(name)


def restart_connector(connect: ConnectClient, name: str, *, everything: bool = False) -> None:
    """Restart what has FAILED of it, or `everything`; one that would lose its snapshot by that begins the snapshot anew."""
    if has_lost_snapshot(connect, name):
        connect.stop(name)
        resume_connector(connect, name)
    elif everything:
        connect.restart(name)
    else:
        connect.restart_failed(name)


def has_lost_snapshot(connect: ConnectClient, name: str) -> bool:
    """Whether the connector would go on without the snapshot that it has not begun to read: its stored offset is empty."""
    config = connect.config(name)
    if config is None or not _takes_snapshot(config):
        return False
    offsets = connect.offsets(name)
    return bool(offsets) and not has_place(offsets) and not any("snapshot" in (entry.get("offset") or ()) for entry in offsets)


def has_place(offsets: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a connector's offsets name a place in its source's log, or of its rows."""
    return any(set(entry.get("offset") or ()) - _UNFINISHED.keys() - {"ts_usec"} for entry in offsets)


def _takes_snapshot(config: Mapping[str, str]) -> bool:
    return config.get("connector.class", "").startswith("io.debezium.") and config.get("snapshot.mode") in _WITH_ROWS


MAX_RESTARTS = 7
Action = Literal["none", "restart", "wait", "give up", "given up", "recovered"]


@dataclass(frozen=True)
class RestartState:
    """How often a connector has been restarted since it last ran well, and when (seconds since the epoch)."""

    restarts: int = 0
    last: float = 0.0
    given_up: bool = False

    @property
    def due(self) -> float:
        """When the next restart may be."""
        return self.last + (self.restarts**2 + self.restarts) * 60.0

    def to_json(self) -> dict[str, Any]:
        """For the sensor's cursor."""
        return asdict(self)


def decide(state: RestartState, *, failed: bool, running: bool, now: float) -> tuple[Action, RestartState]:
    """What to do now, and what to remember.

    A connector counts as well again once it has run for as long as the next wait would be: one that fails two minutes
    after each restart must not be restarted for ever.
    """
    if not failed:
        if running and state.restarts and now >= state.due:
            return "recovered", RestartState()
        return "none", state
    if state.given_up:
        return "given up", state
    if now < state.due:
        return "wait", state
    if state.restarts >= MAX_RESTARTS:
        return "give up", RestartState(state.restarts, state.last, given_up=True)
    return "restart", RestartState(state.restarts + 1, now)
