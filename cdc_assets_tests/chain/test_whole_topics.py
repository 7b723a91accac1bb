"""When a topic that was made again counts as beginning with its whole table: only by what the connector and the topic say."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from cdc_assets.capture.connectors.debezium_signals import KeptNotifications
from cdc_assets.chain.table_reload import WholeReading, count_snapshot_rows, whole_readings
from cdc_assets.clients.connector_events import read_json_event
from cdc_assets_tests.support.notified import SCAN, said


def kept(*events: tuple[int, str, str]) -> KeptNotifications:
    """(ms, type, table or nothing): each scan has read as many rows as the clock shows."""
    return KeptNotifications(tuple(said(kind, at, table, rows=at) for at, kind, table in events))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([], {}),
        ([(1, "STARTED", ""), (2, SCAN, "s.a")], {}),
        ([(1, "STARTED", ""), (2, SCAN, "s.a"), (3, "COMPLETED", "")], {"s.a": WholeReading(2, 1, 3)}),
        ([(1, "STARTED", ""), (2, SCAN, "s.a"), (3, "ABORTED", ""), (4, "COMPLETED", "")], {}),
        # Its begin is not known any more: rows of an earlier, broken one would count as its own.
        ([(2, SCAN, "s.a"), (3, "COMPLETED", "")], {}),
        # Broken, and begun anew: rows of before are not counted.
        (
            [(1, "STARTED", ""), (2, SCAN, "s.a"), (5, "STARTED", ""), (7, SCAN, "s.b"), (9, "COMPLETED", "")],
            {"s.b": WholeReading(7, 5, 9)},
        ),
    ],
)
def test_only_a_reading_with_a_begin_and_an_end_counts(
    events: Sequence[tuple[int, str, str]], found: dict[str, WholeReading]
) -> None:
    assert whole_readings(kept(*events)) == found


def test_a_reading_by_chunks_is_none_and_neither_is_one_that_failed() -> None:
    of_one_table = list(enumerate(("STARTED", SCAN, "COMPLETED")))
    by_chunks = tuple(said(kind, at, "s.a", 5, of="again-1") for at, kind in of_one_table)
    assert whole_readings(KeptNotifications(by_chunks)) == {}
    failed = tuple(said(kind, at, "s.a", 5, status="SQL_EXCEPTION") for at, kind in of_one_table)
    assert whole_readings(KeptNotifications(failed)) == {}


def test_of_what_retention_has_cut_nothing_is_believed() -> None:
    whole = kept((1, "STARTED", ""), (2, SCAN, "s.a"), (3, "COMPLETED", ""))
    assert whole_readings(KeptNotifications(whole.said, whole_since=2)) == {}
    assert whole_readings(KeptNotifications(whole.said, whole_since=None)) == {}


def event(op: str, snapshot: object) -> bytes:
    return json.dumps({"op": op, "after": {}, "source": {"snapshot": snapshot}}).encode()


def test_rows_of_a_snapshot_are_told_from_all_else() -> None:
    rows = [event("r", "first"), event("r", "true"), event("r", "last_in_data_collection"), event("r", "last")]
    assert count_snapshot_rows([*rows, json.dumps({"payload": json.loads(rows[0])}).encode()], read_json_event) == 5
    # As the connector's converter has it, and so as long as a row may be.
    assert count_snapshot_rows([b"the record is too large: 12000000 bytes, above the 10420224"], read_json_event) == 1
    others = [event("r", "incremental"), event("r", False), event("c", "false"), None, b"\x00\x01avro", b"[]", b"{}", b"3"]
    assert count_snapshot_rows(others, read_json_event) == 0
