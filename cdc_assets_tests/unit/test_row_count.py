"""Which transactions a snapshot sees, and what records in flight change in a row count."""

from __future__ import annotations

import json

import pytest

from cdc_assets.resources.databases.postgresql import Snapshot
from cdc_assets.volumetry.row_count import InFlight, count_in_flight
from cdc_assets_tests.fakes import FakeKafka, FakeTopic

SNAPSHOT = Snapshot.parse("100:110:103,107")


@pytest.mark.parametrize(
    ("xid", "seen"), [(1, True), (99, True), (100, True), (103, False), (109, True), (110, False), (200, False)]
)
def test_visibility(xid: int, seen: bool) -> None:
    assert SNAPSHOT.sees(xid) is seen


def test_visibility_across_the_32_bit_wrap() -> None:
    later = Snapshot.parse(f"{2**32 + 10}:{2**32 + 20}:{2**32 + 12}")
    assert later.sees(2**32 - 5)  # as 32 bits: from before the wrap
    assert later.sees(15)
    assert not later.sees(12)
    assert not later.sees(25)


def event(op: str, xid: int | None = 1) -> tuple[bytes, bytes]:
    return b"k", json.dumps({"op": op, "source": {"txId": xid}}).encode()


def in_flight(*entries: tuple[bytes, bytes | None] | None, empty: bool = False) -> InFlight:
    lake = FakeKafka({"t": FakeTopic("T", {0: list(entries)})})
    return count_in_flight(
        lake,  # type: ignore[arg-type]
        "t",
        folded={0: 0},
        upto={0: len(entries)},
        snapshot=SNAPSHOT,
        silver_is_empty=empty,
    )


def test_creates_and_deletes_count_updates_and_tombstones_do_not() -> None:
    assert in_flight(event("c"), event("c"), event("u"), event("d"), (b"k", None), None) == InFlight(1)


def test_transactions_that_the_snapshot_does_not_see_are_left_out() -> None:
    assert in_flight(event("c", 103), event("c", 104), event("d", 150)) == InFlight(1)


def test_snapshot_rows_count_only_for_an_empty_silver() -> None:
    assert in_flight(event("r"), event("r"), empty=True) == InFlight(2)
    assert "a snapshot is still on its way" in (in_flight(event("r")).uncountable or "")


@pytest.mark.parametrize("value", [b"not json", b"[]", b"{}", b'"text"'])
def test_a_record_that_is_no_event_makes_the_count_impossible_by_name(value: bytes) -> None:
    assert in_flight((b"k", value)).uncountable == "t partition 0 offset 0 is no change event"
