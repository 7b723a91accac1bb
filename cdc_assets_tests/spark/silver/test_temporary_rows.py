"""Rows of a temporary connector among changes that the source's own connector streams: the order of PostgreSQL all the same.

The events are those that Debezium 3.7 sends (ADR 0003, 0016); the expected values follow from what each transaction did.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def event(
    offset: int, op: str, key: int, value: str, *, commit: int | None, lsn: int | None, snapshot: str = "false", anchor: str = ""
) -> Record:
    row = {"id": key, "v": value}
    sequence = json.dumps([None if commit is None else str(commit), str(commit if lsn is None else lsn)])
    source = {"lsn": lsn, "sequence": sequence, "txId": 7, "ts_us": 1, "snapshot": snapshot}
    before, after = ({"id": key, "v": None}, None) if op == "d" else (None, row)
    text = json.dumps({"op": op, "before": before, "after": after, "source": source})
    return Record(offset, json.dumps({"id": key}), text, {"cdc_assets.anchor": anchor} if anchor else {})


def state(lake: Lake, records: list[Record], cuts: list[int]) -> dict[int, str]:
    """Silver after the records were appended in batches that end at these places."""
    lake.put("t", *records)
    for cut in [*cuts, len(records)]:
        lake.append(lake.ranges("t", {0: records[cut - 1].offset + 1}))
    spec = lake.spec("t")
    lake.fold(spec)
    return {row["id"]: row["v"] for row in values(spec.path)}


def test_a_row_of_a_temporary_connector_stands_at_its_anchor(session: SparkSession, tmp_path: Path) -> None:
    records = [
        event(0, "c", 1, "before the stop", commit=80, lsn=85),
        event(1, "u", 2, "of 190, open at the snapshot", commit=180, lsn=190),
        event(2, "d", 3, "", commit=180, lsn=191),
        event(3, "r", 1, "read", commit=None, lsn=200, snapshot="first", anchor="100"),
        event(4, "r", 2, "read", commit=None, lsn=200, snapshot="true", anchor="100"),
        event(5, "r", 3, "read", commit=None, lsn=200, snapshot="last", anchor="100"),
        event(6, "u", 4, "first streamed", commit=100, lsn=101),
        event(7, "r", 4, "read", commit=None, lsn=200, snapshot="last", anchor="100"),
    ]
    expected = {1: "read", 2: "of 190, open at the snapshot", 4: "first streamed"}
    assert state(Lake(session, tmp_path / "one"), records, []) == expected
    assert state(Lake(session, tmp_path / "two"), records, [3, 5]) == expected
