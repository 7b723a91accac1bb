"""Events that hold a part of their row: completed in the batch, then from the table, or set aside; never the literal.

The expected rows are what PostgreSQL would hold; every history is folded in one batch and event by event.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.quarantined import by_id, held
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

COLUMNS = (Column("id", "integer", False), Column("n", "integer"), Column("a", "text"), Column("b", "text[]"))


def change(offset: int, key: int, n: int, a: str | None = GAP, b: Any = (GAP,), op: str = "u") -> Record:
    return event(offset, {"id": key, "n": n, "a": a, "b": list(b) if b is not None else None}, op=op)


HISTORY = [
    # Key 1: every update lacks another column.
    change(0, 1, 0, "x", ["p"], "c"),
    change(1, 1, 1, "y"),
    change(2, 1, 2, GAP, ["q"]),
    change(3, 1, 3),
    # Key 2: NULL is a value, and stays one.
    change(4, 2, 0, None, None, "c"),
    change(5, 2, 1),
    # Key 3: deleted and inserted again; what it was before must not come back.
    change(6, 3, 0, "old", ["old"], "c"),
    Record(7, '{"id": 3}', event(7, None, op="d").value),
    change(8, 3, 1, "new", None, "c"),
    change(9, 3, 2),
    # Key 4: nothing to complete it from.
    change(10, 4, 7),
    # Key 5: the record between the row and the part cannot be read, so nobody knows the rest.
    change(11, 5, 0, "x", [], "c"),
    Record(12, '{"id": 5}', "broken"),
    change(13, 5, 2),
    # Key 6: as key 5, then a whole row.
    change(14, 6, 0, "x", [], "c"),
    Record(15, '{"id": 6}', "broken"),
    change(16, 6, 2, "z", ["z"]),
    change(17, 6, 3),
]
ROWS = [
    {"id": 1, "n": 3, "a": "y", "b": ["q"]},
    {"id": 2, "n": 1, "a": None, "b": None},
    {"id": 3, "n": 2, "a": "new", "b": None},
    {"id": 5, "n": 0, "a": "x", "b": []},
    {"id": 6, "n": 3, "a": "z", "b": ["z"]},
]


@pytest.mark.parametrize("cuts", [pytest.param([18], marks=pytest.mark.all), [8, 13, 18]])
def test_parts_of_rows(session: SparkSession, tmp_path: Path, cuts: list[int]) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *HISTORY)
    spec = lake.spec("t", COLUMNS)
    for end in cuts:
        lake.append(lake.ranges("t", {0: end}))
        lake.fold(spec)
    assert by_id(spec.path) == ROWS
    assert held(spec) == {(10, "no_row"), (12, "envelope"), (13, "after_problem"), (15, "envelope")}
    superseded = {row["offset"] for row in rows(spec.quarantine) if row["superseded_by"] is not None}
    assert superseded == {15}
    if len(cuts) > 1:
        return
    # A replay of everything makes every key be folded again from bronze.
    lake.put("t", *[Record(r.offset + 18, r.key, r.value) for r in HISTORY])
    lake.append(lake.all_of("t"))
    result = lake.fold(spec)
    assert result.detail["refolded_keys"] >= 5
    assert by_id(spec.path) == ROWS


@pytest.mark.all
def test_soft_deletes_keep_the_row(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *HISTORY)
    spec = replace(lake.spec("t", COLUMNS), deletes="soft")
    for end in (7, 8):
        lake.append(lake.ranges("t", {0: end}))
        lake.fold(spec)
    (gone,) = [row for row in rows(spec.path) if row["_cdc_deleted"]]
    assert (gone["id"], gone["n"], gone["a"], gone["b"], gone["_cdc_op"]) == (3, 0, "old", ["old"], "d")
    lake.append(lake.ranges("t", {0: 18}))
    lake.fold(spec)
    assert by_id(spec.path) == ROWS
    assert not any(row["_cdc_deleted"] for row in rows(spec.path))
