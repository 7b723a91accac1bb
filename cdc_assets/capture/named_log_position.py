"""A place of a source's log that people are told, carried to the lake: by the kind's own marker, by a row in a marker
table, or by the connector's own offsets.

Whoever says where silver is needs a place that has a name. Where none can be named nothing is waited for, and that is an
error; a wait that takes too long names the link that did not follow.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from cdc_assets.capture.log_position import (
    LOOK_SECONDS,
    CarriedPlace,
    CaughtUpTimeoutError,
    LogMarker,
    LogPosition,
    WaitLimit,
    carry_to_lake,
    connector_look,
    position_in_lake,
)
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.databases.binlog import BinlogDatabase, BinlogPosition
from cdc_assets.clients.databases.row_pages import RowReader
from cdc_assets.clients.kafka import KafkaCluster, Offsets
from cdc_assets.clients.kind_clients import open_reader
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError, MissingAddressError, MissingSecretError, RefusalError
from cdc_assets.registry.field_types import TableId, parse_table
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.record_formats import in_binlog

_ROW_POLL_SECONDS = 0.5


def carry_by_row(marker: LogMarker) -> CarriedPlace:
    """Wait until the marker's row has come; without a declared marker table nothing is waited for, which is said.

    Everything that was committed before the row lies before it in the log, and Debezium delivers in the order of commits.

    Raises CaughtUpTimeoutError: it did not come in time.
    """
    source = marker.source.captured
    assert source is not None, marker.source.name
    declared = source.reconciliation.marker
    if declared is None:
        marker.limit.say("no marker table is declared (reconciliation: {marker: …}): what is on its way is not waited for")
        return CarriedPlace("unknown", None)
    reader = open_reader(source.database)
    return CarriedPlace(mark(marker.core, source, reader, parse_table(declared), marker.name, marker.limit.until), None)


def mark(core: KafkaCluster, source: CapturedSource, reader: RowReader, table: TableId, marker: str, until: float) -> str:
    """Commit the marker's row and wait until its record is in the core cluster; where it is.
    Raises CaughtUpTimeoutError: the connector did not bring it until then (time.monotonic)."""
    topic = names.topic_of(source, table)
    before = core.states([topic]).get(topic)
    read = dict(before.ends) if before else {}
    reader.mark(table, marker)
    while True:
        state = core.states([topic]).get(topic)
        ends = state.ends if state else {}
        for record in core.records(topic, {p: (read.get(p, 0), end) for p, end in ends.items()}):
            # The id stands as it is in JSON and in Avro alike.
            if marker.encode() in (record.value or b""):
                return f"{topic} {record.partition}:{record.offset}"
        read.update(ends)
        if time.monotonic() > until:
            raise CaughtUpTimeoutError(
                f"{source.name}: the row written to {table} did not arrive in topic {topic}; is the table captured (cdc apply), "
                f"and connector {names.connector_name(source)} running? ./cdc status"
            )
        time.sleep(_ROW_POLL_SECONDS)


_OFFSET_POLL_SECONDS = 0.2
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

    The connector commits its offset in one transaction with the records up to it; no table in the source is needed. An offset
    is stored with a record only, and the one after a commit with the next heartbeat, which Debezium sends when another event
    comes: hence a marker now and then.

    Raises CaughtUpTimeoutError: when it did not in time.
    """
    first = database.emit_marker(marker)
    target = BinlogPosition.of(*first.rsplit(":", 1))
    marked = looked = time.monotonic()
    name = names.connector_name(source)
    look = connector_look(say, connect, name)
    while not ((at := connector_position(connect, name)) and at >= target):
        if time.monotonic() > until:
            message = f"{source.name}: connector {name} is at {at.text if at else 'nowhere'}, not yet at {first}; ./cdc status"
            raise CaughtUpTimeoutError("; ".join(filter(None, (message, look()))))
        if time.monotonic() - looked > LOOK_SECONDS:
            look()
            looked = time.monotonic()
        if time.monotonic() - marked > _MARK_SECONDS:
            database.emit_marker(marker)
            marked = time.monotonic()
        time.sleep(_OFFSET_POLL_SECONDS)
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


_NAMELESS = ("", "none", "unknown")
_NOT_ANSWERED = (DatabaseError, MissingAddressError, MissingSecretError)


def carry_named(chain: Chain[BaseSource], *, deadline: float, say: Callable[[str], None] = lambda _: None) -> LogPosition:
    """Wait until everything committed in the source before the call is readable in the lake's cluster; its place has a name.

    `deadline` in seconds. `say` is told what stands in the way.

    PostgreSQL, MariaDB   a marker in the log, as everywhere (log_position)
    MySQL                 the same; by a row in the marker table that the source declares, where the role may not write a mark
    others                by that row
    kind: topics          the ends of its topics: nobody knows of anything before them

    Raises RefusalError: no place of the source's log can be named, so nothing was waited for; CaughtUpTimeoutError: naming the
    link that did not follow in time.
    """
    position = _carry_if_named(chain, deadline, say)
    if isinstance(position, str):
        raise RefusalError(f"{chain.source.name}: nothing was waited for, since no place of its log has a name: {position}")
    return position


def _carry_if_named(chain: Chain[BaseSource], deadline: float, say: Callable[[str], None]) -> LogPosition | str:
    """The position; or why no place of the source's log can be named."""
    captured = chain.source.captured
    if captured is not None:
        position = _carry_captured(Chain(chain.platform, captured), deadline, say)
        if isinstance(position, str):
            return position
    else:
        position = carry_to_lake(chain, deadline=deadline, say=say)
        position = replace(position, lsn=offsets_text(position.offsets))
    if position.lsn in _NAMELESS:
        return f"none of its topics is there yet: {', '.join(names.topic(chain.source, t) for t in chain.source.tables)}"
    return position


def carry_or_tell(chain: Chain[BaseSource], *, deadline: float, say: Callable[[str], None]) -> LogPosition:
    """The same for what goes on without a place: where none can be named, what the topics hold at the call is waited for.

    The position has an empty name then, and `say` is told that nobody knows what the source holds beyond them. Of PostgreSQL and
    MariaDB, which the rest of the chain asks too, it is an error.

    Raises CaughtUpTimeoutError: naming the link that did not follow in time.
    """
    if chain.source.asked:
        return carry_named(chain, deadline=deadline, say=say)
    try:
        position = _carry_if_named(chain, deadline, say)
    except _NOT_ANSWERED as error:
        position = str(error)
    if isinstance(position, LogPosition):
        return position
    say(f"{chain.source.name}: only what its topics hold now is waited for, since its place in the log is not known: {position}")
    return replace(carry_to_lake(chain, deadline=deadline, say=say), lsn="")


def offsets_text(offsets: Offsets) -> str:
    """Where topics end: `prices 0:120, prices 1:7`; empty where there is none."""
    return ", ".join(f"{topic} {p}:{end}" for topic, ends in sorted(offsets.items()) for p, end in sorted(ends.items()))


def _carry_captured(chain: Chain[CapturedSource], deadline: float, say: Callable[[str], None]) -> LogPosition | str:
    refused = f"kind {chain.source.kind_name} is asked for no place of its log"
    if kind_of(chain.source).tells_log:
        try:
            return carry_to_lake(chain, deadline=deadline, say=say, database=chain.platform.database(chain.source))
        except DatabaseError as error:
            if chain.source.asked or chain.source.reconciliation.marker is None:
                raise
            say(refused := f"{chain.source.name}: no mark could be written to its log, so a row marks it: {error}")
    if chain.source.reconciliation.marker is None:
        return f"{refused}; declare a marker table (reconciliation: {{marker: schema.table}}), and cdc apply"
    return carry_by_marker_table(chain, deadline, say)


def carry_by_marker_table(
    chain: Chain[CapturedSource], deadline: float, say: Callable[[str], None] = lambda _: None
) -> LogPosition:
    """The same by a row in the marker table that the source declares.
    Raises CaughtUpTimeoutError: the connector, or the mirror, did not bring it in time."""
    assert chain.source.reconciliation.marker is not None, chain.source.name
    until, marker = time.monotonic() + deadline, f"position-{uuid.uuid4()}"
    reader, table = open_reader(chain.source.database), parse_table(chain.source.reconciliation.marker)
    bound = mark(chain.platform.core_kafka(chain.source.cluster), chain.source, reader, table, marker, until)
    return position_in_lake(chain, LogPosition(marker, bound, {}), WaitLimit(until, say))
