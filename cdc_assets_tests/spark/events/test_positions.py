"""Positions of every kind of source: their order as texts is the order that the source means, written by hand here.

Each list is in true order; the records are sent in the opposite one, so that offsets cannot be what decides.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.records import Sent, drafted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Events = list[tuple[str, dict[str, Any]]]
MYSQL: Events = [
    ("r", {"file": "binlog.000009", "pos": 157, "row": 0, "snapshot": "true"}),
    ("c", {"file": "binlog.000009", "pos": 157, "row": 0}),
    ("c", {"file": "binlog.000009", "pos": 990, "row": 0}),
    ("c", {"file": "binlog.000009", "pos": 990, "row": 2}),
    ("c", {"file": "binlog.000009", "pos": 990, "row": 10}),
    ("c", {"file": "binlog.000009", "pos": 1002, "row": 0}),
    ("c", {"file": "binlog.000009", "pos": 4294967296, "row": 0}),
    ("c", {"file": "binlog.000010", "pos": 4, "row": 0}),
    ("r", {"file": "binlog.000010", "pos": 300, "row": 0, "snapshot": "incremental"}),
    ("u", {"file": "binlog.000010", "pos": 300, "row": 0}),
    ("c", {"file": "binlog.999999", "pos": 9, "row": 0}),
    ("c", {"file": "binlog.1000000", "pos": 4, "row": 0}),
]
SHORT_FILES: Events = [("c", {"file": f"mysql-bin-changelog.{n}", "pos": 4, "row": 0}) for n in (1, 9, 10, 11, 99, 100)]
SQLSERVER: Events = [
    ("r", {"commit_lsn": "0000002a:000004d0:0003", "change_lsn": None, "snapshot": "true"}),
    ("c", {"commit_lsn": "0000002a:000004d0:0004", "change_lsn": "0000002a:000004c8:0002", "event_serial_no": 1}),
    ("u", {"commit_lsn": "0000002a:000004d0:0004", "change_lsn": "0000002a:000004c8:0002", "event_serial_no": 2}),
    ("u", {"commit_lsn": "0000002a:000004d0:0004", "change_lsn": "0000002a:000004c8:0002", "event_serial_no": 10}),
    ("c", {"commit_lsn": "0000002a:000004d0:0004", "change_lsn": "0000002a:000004c8:000A", "event_serial_no": 1}),
    ("c", {"commit_lsn": "0000002a:000004d0:0010", "change_lsn": "0000002a:000004c9:0001", "event_serial_no": 1}),
    # Written earlier, committed later; and a writer that leaves out the zeros.
    ("c", {"commit_lsn": "2a:5d0:3", "change_lsn": "00000009:ffffffff:ffff", "event_serial_no": 1}),
    ("c", {"commit_lsn": "0000002A:000005D0:0004", "change_lsn": "00000009:ffffffff:ffff", "event_serial_no": 1}),
    ("c", {"commit_lsn": "0000002b:00000001:0001", "change_lsn": "0000002a:00000001:0001", "event_serial_no": 1}),
    ("c", {"commit_lsn": "00000100:00000001:0001", "change_lsn": "00000100:00000001:0001", "event_serial_no": 1}),
]
ORACLE: Events = [
    ("r", {"scn": "999", "snapshot": "true"}),
    # Open during the snapshot: changed below its SCN, committed above it.
    ("u", {"scn": "500", "commit_scn": "1000"}),
    ("c", {"scn": "998", "commit_scn": "1000", "rs_id": " 0x000034.00008aaf.0010 ", "ssn": 0}),
    ("u", {"scn": "998", "commit_scn": "1000", "rs_id": " 0x000034.00008aaf.0010 ", "ssn": 2}),
    ("u", {"scn": "998", "commit_scn": "1000", "rs_id": " 0x000034.00008aaf.0010 ", "ssn": 10}),
    ("u", {"scn": "998", "commit_scn": "1000", "rs_id": " 0x000034.00008ab0.0001 ", "ssn": 0}),
    ("u", {"scn": "999", "commit_scn": "1000"}),
    ("u", {"scn": "1000", "commit_scn": "1001"}),
    ("c", {"scn": "2", "commit_scn": "9999"}),
    ("c", {"scn": "2", "commit_scn": "10000"}),
    ("c", {"scn": "281474976710656", "commit_scn": "281474976710657"}),
    ("c", {"scn": "9223372036854775808", "commit_scn": "9223372036854775808"}),
]
MONGODB: Events = [
    # Sent later than what follows was written, and read before.
    ("r", {"ts_ms": 1700000009000, "ord": -1, "snapshot": "true"}),
    ("c", {"ts_ms": 1700000000000, "ord": 2}),
    ("u", {"ts_ms": 1700000000000, "ord": 10}),
    ("u", {"ts_ms": 1700000001000, "ord": 1}),
    ("u", {"ts_ms": 1700000001005, "wallTime": 1700000001005, "ord": 3}),
    ("u", {"ts_ms": 1700000001050, "wallTime": 1700000001050, "ord": 2}),
    ("d", {"ts_ms": 1700000001050, "wallTime": 1700000001050, "ord": 4, "lsid": "{}", "txnNumber": 3}),
]
POSTGRESQL: Events = [
    ("r", {"lsn": 900, "sequence": '[null,"900"]', "snapshot": "true"}),
    ("c", {"lsn": 1000, "sequence": '["1000","1000"]'}),
    ("c", {"lsn": 99, "sequence": '["10000","99"]'}),
    ("c", {"lsn": 123, "sequence": '["10000","123"]'}),
    ("c", {"lsn": 100, "sequence": '["10001","100"]'}),
]
UNPLACED: dict[str, list[dict[str, Any]]] = {
    "mysql": [
        {"file": "", "pos": 4},
        {"file": "binlog", "pos": 4},
        {"file": "binlog.000001"},
        {"file": "b.12345678901", "pos": 4},
    ],
    "sqlserver": [{}, {"commit_lsn": "0000002a:000004d0"}, {"commit_lsn": "x"}, {"commit_lsn": "0:0:10000"}],
    "oracle": [{}, {"scn": "1e9"}, {"commit_scn": "1:1,2:2"}, {"commit_scn": "123456789012345678901"}],
    "mongodb": [{"ts_ms": 1}, {"ord": 1}],
    "postgresql": [{}, {"sequence": "[null,null]"}],
}
ORDERED = {
    "mysql": MYSQL,
    "mariadb": SHORT_FILES,
    "sqlserver": SQLSERVER,
    "oracle": ORACLE,
    "mongodb": MONGODB,
    "postgresql": POSTGRESQL,
}


def test_the_order_of_positions_is_the_order_of_the_log(session: SparkSession) -> None:
    topics, forms = {}, {}
    for name, events in ORDERED.items():
        sent = [Sent({"op": op, "source": source}, offset=len(events) - i) for i, (op, source) in enumerate(events)]
        topics[name], forms[name] = sent, ("debezium-json", name)
    for name, sources in UNPLACED.items():
        topics[f"{name}-unplaced"] = [Sent({"op": "c", "source": source}) for source in sources]
        forms[f"{name}-unplaced"] = ("debezium-json", name)
    found: dict[str, dict[int, str]] = {}
    for row in drafted(session, forms, topics).select("topic", "offset", "position").collect():
        found.setdefault(row.topic, {})[row.offset] = row.position
    for name, events in ORDERED.items():
        places = [found[name][len(events) - i] for i in range(len(events))]
        assert places == sorted(places), name
        assert len({len(p) for p in places}) == 1, name
        assert all(re.fullmatch(r"0000\.([0-9a-f]{2,}\.)+[01]\.([0-9a-f]{2,}\.)*[0-9a-f]{16}", p) for p in places), name
        assert all(a[:-17] < b[:-17] for a, b in pairwise(places)), name
    for name in UNPLACED:
        assert set(found[f"{name}-unplaced"].values()) == {None}, name


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_rows_of_an_event_are_no_order_where_they_have_keys(session: SparkSession, connector: str) -> None:
    """An INSERT of three rows, then an UPDATE of two, of one transaction: as a MySQL 9.7.4 with binlog_transaction_compression
    has sent them, and a MariaDB 11.8 (there `pos` is where the transaction begins).
    """
    ops = [("c", 0), ("c", 1), ("c", 2), ("u", 0), ("u", 1)]
    events = [{"op": op, "source": {"file": "binlog.000035", "pos": 3248, "row": row}} for op, row in ops]
    topics = {"keyed": [Sent(event, key={"id": 1}) for event in events], "keyless": [Sent(event) for event in events]}
    found: dict[str, list[str]] = {}
    rows = drafted(session, dict.fromkeys(topics, ("debezium-json", connector)), topics).select("topic", "offset", "position")
    for row in rows.orderBy("topic", "offset").collect():
        found.setdefault(row.topic, []).append(row.position)
    assert found["keyed"] == sorted(found["keyed"])
    assert len({place[:-17] for place in found["keyed"]}) == 1
    # Without a key every row is one of its own, and told by its number.
    assert len({place[:-17] for place in found["keyless"]}) == 3
