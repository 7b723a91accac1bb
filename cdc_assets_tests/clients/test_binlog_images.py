"""Raw events as a MariaDB 10.11.19 and a MySQL 9.7.4 sent them to a reader: times, places, and row images with gaps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_events import (
    GAPS,
    RawEvent,
    changes_with_gaps,
    has_gaps,
    raw_events,
    tables_with_compression,
    time_at,
)
from cdc_assets.registry.field_types import TableId

T = TableId("x", "t")
SINCE = BinlogPosition.of("binlog.000001", 1389)
WRITTEN = 1795996035
CHECKSUM = b"\x85\x17\x85\xff"
FORMAT = b"\x04\x0010.11.19-MariaDB-0+deb12u1-log" + bytes(60) + b"\x01" + CHECKSUM
MAP = b"\x12\x00\x00\x00\x00\x00\x01\x00\x01x\x00\x01t\x00\x04\x03\x03\xfc\xfc\x02\x04\x04\x0e"
FULL_WRITE = (
    b'\x12\x00\x00\x00\x00\x00\x01\x00\x04\x0f\xf0\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00a\x07\x00\x00\x00{"a":1}'
)
MINIMAL_UPDATE = b"\x12\x00\x00\x00\x00\x00\x01\x00\x04\x01\x02\xfe\x01\x00\x00\x00\xfe\t\x00\x00\x00"
MINIMAL_WRITE = b"\x12\x00\x00\x00\x00\x00\x01\x00\x04\x01\xfe\x05\x00\x00\x00"
MYSQL_MAP = b"m\x00\x00\x00\x00\x00\x01\x00\x01x\x00\x01t\x00\x04\x03\x03\xfc\xf5\x02\x04\x04\x0e\x01\x01\x00\x02\x03\xfc\xff\x00"
MYSQL_UPDATE = b"m\x00\x00\x00\x00\x00\x11\x00\x02\x00\x04\x01\x02\x00\x01\x00\x00\x00\x00\t\x00\x00\x00"


def event(kind: int, body: bytes, end: int, *, written: int = WRITTEN, checksum: bytes = CHECKSUM) -> bytes:
    return struct.pack("<IBIIIH", written, kind, 1, 19 + len(body) + len(checksum), end, 0) + body + checksum


class Server:
    """A connection of a server with these events; what a reader asks for is kept."""

    def __init__(self, *events: bytes, checksum: str = "CRC32") -> None:
        self.connection = self
        self.events = iter(events)
        self.checksum = checksum
        self.asked: list[Any] = []

    def execute(self, statement: str) -> None:
        self.asked.append(statement)

    def fetchone(self) -> Sequence[str]:
        return (self.checksum,)

    def _execute_command(self, command: int, payload: bytes) -> None:
        self.asked.append((command, payload))

    def _read_packet(self) -> Any:
        data = next(self.events, None)
        return SimpleNamespace(is_eof_packet=lambda: data is None, get_all_data=lambda: b"\0" + (data or b""))


def server() -> Server:
    return Server(
        event(4, struct.pack("<Q", 1389) + b"binlog.000001", 0, written=0),
        event(15, FORMAT[:-4], 0),
        event(162, bytes(13), 1431),
        event(160, b"UPDATE x.t SET v=9 WHERE id=1", 1483),
        event(19, MAP, 1529),
        event(24, MINIMAL_UPDATE, 1573),
        event(16, bytes(8), 1604),
        event(162, bytes(13), 1646),
        event(19, MAP, 1700),
        event(23, FULL_WRITE, 1746),
        event(4, struct.pack("<Q", 4) + b"binlog.000002", 1790),
        event(4, struct.pack("<Q", 4) + b"binlog.000002", 0, written=0),
        event(15, FORMAT[:-4], 256),
        event(162, bytes(13), 300),
        event(19, MAP, 346),
        event(23, MINIMAL_WRITE, 380),
    )


def test_a_reader_asks_from_a_place_on_until_the_log_ends() -> None:
    asked = server()
    places = [(raw.kind, raw.begin.text) for raw in raw_events(asked, SINCE)]
    assert asked.asked[-1] == (0x12, struct.pack("<IHI", 1389, 3, 0) + b"binlog.000001")
    assert places[0] == (162, "binlog.000001:1389")
    assert places[3] == (24, "binlog.000001:1529")
    assert places[-1] == (23, "binlog.000002:346")


def test_images_with_gaps_have_place_and_statement() -> None:
    changes = changes_with_gaps(server(), {("x", "t"): T}, SINCE, seconds=9.0, most=9)
    assert [(c.table, c.at.text, c.kind, c.statement) for c in changes] == [
        (T, "binlog.000001:1529", GAPS, "UPDATE x.t SET v=9 WHERE id=1"),
        (T, "binlog.000002:346", GAPS, ""),
    ]
    assert len(list(changes_with_gaps(server(), {("x", "t"): T}, SINCE, seconds=9.0, most=1))) == 1
    assert not list(changes_with_gaps(server(), {("x", "other"): T}, SINCE, seconds=9.0, most=1))


def test_the_time_of_a_place_is_its_first_event_s() -> None:
    assert time_at(server(), SINCE) == WRITTEN
    assert time_at(Server(), SINCE) is None
    assert time_at(server(), BinlogPosition.of("binlog.000001", 2**32)) is None


def test_a_compressed_transaction_of_mysql_is_unpacked() -> None:
    inner = event(19, MYSQL_MAP, 0, checksum=b"") + event(31, MYSQL_UPDATE, 0, checksum=b"")
    packed = pa.Codec("zstd").compress(inner, asbytes=True)
    size = bytes([len(inner)]) if len(inner) < 251 else b"\xfc" + struct.pack("<H", len(inner))
    head = b"\x02\x01\x00\x03" + bytes([len(size)]) + size + b"\x01\x01" + bytes([len(packed)]) + b"\x00"
    log = Server(event(40, head + packed, 1500, checksum=b""), checksum="NONE")
    (change,) = changes_with_gaps(log, {("x", "t"): T}, SINCE, seconds=9.0, most=1)
    assert (change.at, change.kind) == (SINCE, GAPS)


def test_every_bit_of_an_image_counts() -> None:
    nine = b"\x12\x00\x00\x00\x00\x00\x01\x00\x09"
    assert not has_gaps(RawEvent(23, WRITTEN, SINCE, nine + b"\xff\xff"))
    assert not has_gaps(RawEvent(23, WRITTEN, SINCE, nine + b"\xff\x01"))
    assert has_gaps(RawEvent(23, WRITTEN, SINCE, nine + b"\xff\xfe"))
    assert has_gaps(RawEvent(24, WRITTEN, SINCE, nine + b"\xff\x01" + b"\xfe\x01"))
    assert has_gaps(RawEvent(31, WRITTEN, SINCE, MYSQL_UPDATE))
    wide = b"\x12\x00\x00\x00\x00\x00\x01\x00\xfc\x2c\x01"
    assert not has_gaps(RawEvent(23, WRITTEN, SINCE, wide + b"\xff" * 37 + b"\x0f"))
    assert has_gaps(RawEvent(23, WRITTEN, SINCE, wide + b"\xff" * 37 + b"\x07"))


def test_tables_with_compressed_columns_are_known_by_the_types_of_their_rows() -> None:
    """MariaDB's 140 and 141, of a captured table and of others; MySQL writes neither."""
    packed = [MAP[:15] + bytes((3, 3, kind, 0xFC)) + MAP[19:] for kind in (140, 141)]
    for body, found in ((MAP, set()), (MYSQL_MAP, set()), (packed[0], {T}), (packed[1], {T})):
        for tables in ({("x", "t"): T}, {("x", "u"): T}):
            rotate = event(4, struct.pack("<Q", 1389) + b"binlog.000001", 0, written=0)
            cursor = Server(rotate, event(15, FORMAT[:-4], 256), event(19, body, 1500))
            told = tables_with_compression(cursor, tables, SINCE, seconds=60)
            assert told == (found if ("x", "t") in tables else set())
    assert tables_with_compression(server(), {}, SINCE, seconds=-1) is None
