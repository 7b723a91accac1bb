"""A binlog's events as a replica reads them: when one was written, which columns its row images have, and of which types.

When an event was written, and which columns its row images have, SHOW BINLOG EVENTS does not tell. That is read as a replica
reads: COM_BINLOG_DUMP from a place on, with the flag that ends it where the binlog ends. Every byte of the log travels, so this
is for a place or two: the time of what was found, and the transaction at which a connector has stopped.
https://mariadb.com/kb/en/com_binlog_dump/ , https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_unsent import UnsentChange, shorten_statement
from cdc_assets.registry.field_types import TableId

GAPS = "row image with gaps"
_DUMP, _NON_BLOCK, _WITH_ANNOTATIONS = 0x12, 1, 2
_CHECKSUM_BYTES = 4
_LAST_POSITION = 2**32 - 1
"""The request has four bytes for a position."""
_SESSION = "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum, "
_SESSION += "@mariadb_slave_capability = 4"
_HEADER = struct.Struct("<IBIIIH")
_ARTIFICIAL = 0x20
_ROTATE, _FORMAT, _TABLE_MAP, _ROWS_QUERY, _PAYLOAD, _ANNOTATE = 4, 15, 19, 29, 40, 160
_TRANSACTIONS = {33, 34, 162}
_PACKED = {140, 141}
"""MariaDB's MYSQL_TYPE_BLOB_COMPRESSED and MYSQL_TYPE_VARCHAR_COMPRESSED: types of columns with COMPRESSED."""
_ONE_IMAGE, _TWO_IMAGES = {23, 25, 30, 32}, {24, 31, 39}
_WITH_EXTRA = {30, 31, 32, 39}
"""Rows of the second version have a header of a variable length."""


@dataclass(frozen=True)
class RawEvent:
    """An event's bytes behind its header; `written`: seconds since 1970."""

    kind: int
    written: int
    begin: BinlogPosition
    body: bytes

    @property
    def table_name(self) -> tuple[str, str]:
        """Database and table of a Table_map event."""
        schema_end = 9 + self.body[8]
        table_end = schema_end + 2 + self.body[schema_end + 1]
        schema, table = self.body[9:schema_end], self.body[schema_end + 2 : table_end]
        return schema.decode(errors="replace"), table.decode(errors="replace")


def raw_events(cursor: Any, since: BinlogPosition) -> Iterator[RawEvent]:
    """From a place on, where an event begins, to the binlog's end; what is in a compressed transaction has that one's place.

    The connection is of no use afterwards.
    """
    if since.position > _LAST_POSITION:
        return
    cursor.execute(_SESSION)
    cursor.execute("SELECT @@global.binlog_checksum")
    of_session = _CHECKSUM_BYTES if cursor.fetchone()[0] == "CRC32" else 0
    # PyMySQL has no public call for this command.
    connection = cursor.connection
    flags = _NON_BLOCK | _WITH_ANNOTATIONS
    connection._execute_command(_DUMP, struct.pack("<IHI", since.position, flags, 0) + since.file.encode())
    at, checksum = since, of_session
    while True:
        packet = connection._read_packet()
        if packet.is_eof_packet():
            return
        data = packet.get_all_data()[1:]
        written, kind, _, size, end, flags = _HEADER.unpack_from(data)
        if kind == _ROTATE:
            position = int.from_bytes(data[_HEADER.size : _HEADER.size + 8], "little")
            at = BinlogPosition.of(data[_HEADER.size + 8 : len(data) - of_session].decode(), position)
        elif kind == _FORMAT:
            # Which it is of this file stands before its own, which it always has.
            checksum = _CHECKSUM_BYTES if data[-1 - _CHECKSUM_BYTES] == 1 else 0
            at = BinlogPosition.of(at.file, end) if end else at
        else:
            body = data[_HEADER.size : len(data) - checksum]
            yield from _unpack(RawEvent(kind, written, at, body))
            # An event that the server makes for this reader alone has no place in the log; MariaDB tells no end of others.
            at = BinlogPosition.of(at.file, end or at.position + (0 if flags & _ARTIFICIAL else size))


def _unpack(event: RawEvent) -> Iterator[RawEvent]:
    """A compressed transaction of MySQL as what is in it."""
    if event.kind != _PAYLOAD:
        yield event
        return
    fields, n = {}, 0
    while event.body[n]:
        field, n = _length(event.body, n)
        size, n = _length(event.body, n)
        fields[field] = _length(event.body, n)[0]
        n += size
    packed = event.body[n + 1 :]
    if fields.get(2) == 255:
        plain = packed
    else:
        import pyarrow as pa

        plain = bytes(pa.Codec("zstd").decompress(packed, fields[3], asbytes=True))
    n = 0
    while n < len(plain):
        written, kind, _, size, _, _ = _HEADER.unpack_from(plain, n)
        yield RawEvent(kind, written, event.begin, plain[n + _HEADER.size : n + size])
        n += size


class ImageReader:
    """Tells row images with gaps of these tables among raw events in their order."""

    def __init__(self, tables: Mapping[tuple[str, str], TableId]) -> None:
        self._tables = tables
        self._maps: dict[bytes, TableId | None] = {}
        self._statement = ""

    def change(self, event: RawEvent) -> UnsentChange | None:
        """The change of an event whose image lacks columns; None of another."""
        if event.kind in _TRANSACTIONS:
            self._statement = ""
        elif event.kind == _TABLE_MAP:
            self._maps[event.body[:6]] = self._tables.get(event.table_name)
        elif event.kind == _ANNOTATE:
            self._statement = event.body.decode(errors="replace")
        elif event.kind == _ROWS_QUERY:
            self._statement = event.body[1:].decode(errors="replace")
        elif event.kind in _ONE_IMAGE | _TWO_IMAGES and (table := self._maps.get(event.body[:6])) and has_gaps(event):
            return UnsentChange(table, event.begin, GAPS, shorten_statement(self._statement))
        return None


def has_gaps(event: RawEvent) -> bool:
    """Whether an image of a row event, before or after, has not all of the table's columns."""
    n = 8
    if event.kind in _WITH_EXTRA:
        n += int.from_bytes(event.body[8:10], "little")
    columns, n = _length(event.body, n)
    size = (columns + 7) // 8
    for image in range(2 if event.kind in _TWO_IMAGES else 1):
        bits = int.from_bytes(event.body[n + image * size : n + (image + 1) * size], "little")
        if bits & ((1 << columns) - 1) != (1 << columns) - 1:
            return True
    return False


def column_types(body: bytes) -> bytes:
    """The numbers of the columns' types in a Table_map event."""
    schema_end = 9 + body[8]
    columns, n = _length(body, schema_end + 3 + body[schema_end + 1])
    return body[n : n + columns]


def _length(body: bytes, n: int) -> tuple[int, int]:
    """A length-encoded number, and where the bytes behind it begin."""
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(body[n], 0)
    return (body[n], n + 1) if not size else (int.from_bytes(body[n + 1 : n + 1 + size], "little"), n + 1 + size)


def time_at(cursor: Any, at: BinlogPosition) -> int | None:
    """When the event at a place was written, in seconds since 1970; None where nothing is there."""
    return next((event.written for event in raw_events(cursor, at) if event.written), None)


def changes_with_gaps(
    cursor: Any, tables: Mapping[tuple[str, str], TableId], since: BinlogPosition, *, seconds: float, most: int
) -> Iterator[UnsentChange]:
    """Row images with gaps of these tables behind a place, within some seconds; of each table at most so many."""
    reader, started = ImageReader(tables), time.monotonic()
    counts: dict[TableId, int] = {}
    for event in raw_events(cursor, since):
        if time.monotonic() - started > seconds:
            return
        change = reader.change(event)
        if change and counts.get(change.table, 0) < most:
            counts[change.table] = counts.get(change.table, 0) + 1
            yield change


def tables_with_compression(
    cursor: Any, tables: Mapping[tuple[str, str], TableId], since: BinlogPosition, *, seconds: float
) -> set[TableId] | None:
    """Which of these tables have rows with COMPRESSED columns behind a place; None: the seconds were over before the end."""
    found, started = set[TableId](), time.monotonic()
    for event in raw_events(cursor, since):
        if time.monotonic() - started > seconds:
            return None
        if event.kind == _TABLE_MAP and _PACKED & {*column_types(event.body)} and (table := tables.get(event.table_name)):
            found.add(table)
    return found
