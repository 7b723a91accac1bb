"""The offset that a Debezium connector begins with says that its first snapshot is not done.

Debezium tells that a snapshot begins before it knows a place in the log, and Connect stores an empty offset with that. Killed
or failed before its first row, the connector takes the empty offset for that of a snapshot which is done, and reads the changes
alone. With an offset that names an unfinished snapshot it begins the snapshot anew, however often it dies in between.
https://github.com/debezium/debezium, 3.7: SinkNotificationChannel.send, RelationalSnapshotChangeEventSource.getSnapshottingTask

MariaDB and MySQL cannot begin so: Debezium makes their schema history's topic only for a connector without any offset. An empty
offset of theirs is forgotten instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.resources.connect.states import SourceOffset

if TYPE_CHECKING:
    from cdc_assets.resources.connect import ConnectClient

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
