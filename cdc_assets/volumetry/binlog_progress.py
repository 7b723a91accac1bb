"""A place of a binlog, carried to the core cluster by the connector's own offsets; no table in the source is needed.

The connector commits its offset in one transaction with the records up to it. An offset is stored with a record only, and
the one after a commit with the next heartbeat, which Debezium sends when another event comes: hence a marker now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from cdc_assets import names
from cdc_assets.errors import CaughtUpTimeoutError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.volumetry.log_position import LOOK_SECONDS, CarriedPlace, LogMarker, connector_look
from spark.positions.commit_place import in_binlog

_POLL_SECONDS = 0.2
# Longer than the connector's heartbeat interval: the next marker finds it due.
_MARK_SECONDS = 1.0


def await_binlog(
    source: BaseSource,
    marker: str,
    database: BinlogDatabase,
    connect: ConnectClient,
    until: float,
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """Wait until the connector has stored an offset behind everything committed before the call; the position.

    `say` is told now and then why the connector does not run.

    Raises:
        CaughtUpTimeoutError: when it did not in time.
    """
    first = database.emit_marker(marker)
    target = BinlogPosition.of(*first.rsplit(":", 1))
    marked = looked = time.monotonic()
    name = names.connector_name(source)
    look = connector_look(say, connect, name)
    while not ((at := connector_position(connect, name)) and at >= target):
        if time.monotonic() > until:
            told = f"{source.name}: connector {name} is at {at.text if at else 'nowhere'}, not yet at {first}; ./cdc status"
            raise CaughtUpTimeoutError("; ".join(filter(None, (told, look()))))
        if time.monotonic() - looked > LOOK_SECONDS:
            look()
            looked = time.monotonic()
        if time.monotonic() - marked > _MARK_SECONDS:
            database.emit_marker(marker)
            marked = time.monotonic()
        time.sleep(_POLL_SECONDS)
    return first


def carry_by_offsets(marker: LogMarker) -> CarriedPlace:
    """See log_position: the connector's offsets tell where it is."""
    assert marker.connect is not None, "a place of a binlog is told by the connector's offsets"
    database = cast(BinlogDatabase, marker.database)
    limit = marker.limit
    lsn = await_binlog(marker.source, marker.name, database, marker.connect, limit.until, limit.say)
    return CarriedPlace(lsn, in_binlog(lsn, BinlogPosition.of(*lsn.rsplit(":", 1)).in_positions))


def connector_position(connect: ConnectClient, name: str) -> BinlogPosition | None:
    """How far the connector has got; None before its snapshot is complete."""
    offset = binlog_offset(connect, name)
    return BinlogPosition.of(str(offset["file"]), int(offset["pos"])) if offset else None


def binlog_offset(connect: ConnectClient, name: str) -> Mapping[str, Any] | None:
    """What the connector goes on from, in its own words (file, pos, gtids); None before its snapshot is complete."""
    for entry in connect.offsets(name):
        offset = entry.get("offset") or {}
        if offset.get("file") and not offset.get("snapshot"):
            return dict(offset)
    return None
