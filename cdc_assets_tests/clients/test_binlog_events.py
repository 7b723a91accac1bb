"""A binlog's events some at a time, as a MySQL 9.7.4 told them of three transactions; LIMIT counts those of a compressed one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog import BinlogPosition

ROWS, UPDATED = "table_id: 109 flags: STMT_END_F USE_SQL_FOREIGN_KEY_F", "table_id: 111 flags: STMT_END_F USE_SQL_FOREIGN_KEY_F"
TOLD = [
    (2172, "Gtid", 2251, "SET @@SESSION.GTID_NEXT= 'a1d1d4ae-e684-11f1-ae7b-02fc00000001:9'"),
    (2251, "Transaction_payload", 2429, "compression='ZSTD', decompressed_size=628 bytes"),
    (2429, "Query", 2429, "BEGIN"),
    *[(2429, "Table_map", 2429, "table_id: 109 (act.a)"), (2429, "Write_rows", 2429, ROWS)] * 3,
    (2429, "Xid", 2429, "COMMIT /* xid=23 */"),
    (2429, "Gtid", 2508, "SET @@SESSION.GTID_NEXT= 'a1d1d4ae-e684-11f1-ae7b-02fc00000001:10'"),
    (2508, "Transaction_payload", 2688, "compression='ZSTD', decompressed_size=290 bytes"),
    (2688, "Query", 2688, "BEGIN"),
    (2688, "Table_map", 2688, "table_id: 109 (act.a)"),
    (2688, "Update_rows", 2688, ROWS),
    (2688, "Xid", 2688, "COMMIT /* xid=27 */"),
    (2688, "Gtid", 2767, "SET @@SESSION.GTID_NEXT= 'a1d1d4ae-e684-11f1-ae7b-02fc00000001:11'"),
    (2767, "Query", 2838, "BEGIN"),
    (2838, "Table_map", 2892, "table_id: 111 (act.b)"),
    (2892, "Write_rows", 2935, UPDATED),
    (2935, "Xid", 2966, "COMMIT /* xid=31 */"),
]
FILE = "binlog.000001"
EVENTS = [(FILE, begin, kind, 1, end, info) for begin, kind, end, info in TOLD]


class Told:
    """A cursor of that server: from the event that begins at a place on, never from within a compressed one."""

    def __init__(self) -> None:
        self.rows: Sequence[Sequence[object]] = ()

    def execute(self, statement: str, values: Sequence[object]) -> None:
        found = re.fullmatch(r"SHOW BINLOG EVENTS IN %s FROM (\d+) LIMIT (\d+), (\d+)", statement)
        assert found
        assert values == [FILE]
        at, skip, most = map(int, found.groups())
        first = next((n for n, event in enumerate(EVENTS) if event[1] == at and event[4] > at), len(EVENTS))
        self.rows = EVENTS[first:][skip : skip + most]

    def fetchall(self) -> Sequence[Sequence[object]]:
        return self.rows


@pytest.mark.parametrize("at_once", [*range(1, 8), 500])
def test_every_event_comes_once_however_many_are_asked_for(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    pages = [*binlog_capture.pages(Told(), BinlogPosition.of(FILE, 2172))]
    assert [event for rows, _ in pages for event in rows] == EVENTS
    for n, (_, at) in enumerate(pages[:-1]):
        come = (n + 1) * at_once
        assert all(event[4] > at.position for event in EVENTS[come:])
        assert sum(event[4] <= at.position for event in EVENTS) <= come


# MariaDB 11.8 tells no end of a transaction's row events.
ENDLESS = [
    (1806, "Gtid", 1848, "BEGIN GTID 0-1-10"),
    (1848, "Annotate_rows", 0, "UPDATE t SET v = 1 WHERE id IN (1, 2, 3)"),
    (1911, "Table_map", 0, "table_id: 22 (evpos.t)"),
    (1957, "Update_rows_v1", 0, "table_id: 22 flags: STMT_END_F"),
    (2467, "Xid", 2498, "COMMIT /* xid=79 */"),
    (2498, "Gtid", 2540, "BEGIN GTID 0-1-11"),
    (2540, "Annotate_rows", 0, "UPDATE t SET v = 3 WHERE id = 3"),
    (2594, "Table_map", 0, "table_id: 22 (evpos.t)"),
    (2640, "Update_rows_v1", 0, "table_id: 22 flags: STMT_END_F"),
    (2692, "Xid", 2723, "COMMIT /* xid=86 */"),
]


@pytest.mark.parametrize("at_once", [*range(1, 8), 500])
def test_events_without_an_end_come_once(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    class Newer(Told):
        def execute(self, statement: str, values: Sequence[object]) -> None:
            found = re.fullmatch(r"SHOW BINLOG EVENTS IN %s FROM (\d+) LIMIT (\d+), (\d+)", statement)
            assert found
            at, skip, most = map(int, found.groups())
            first = next((n for n, event in enumerate(events) if event[1] == at), len(events))
            self.rows = events[first:][skip : skip + most]

    events = [(FILE, begin, kind, 1, end, info) for begin, kind, end, info in ENDLESS]
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    pages = [*binlog_capture.pages(Newer(), BinlogPosition.of(FILE, 1806))]
    assert [event for rows, _ in pages for event in rows] == events
