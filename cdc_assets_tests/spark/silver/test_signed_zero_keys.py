"""Keys of -0 and 0 are one key, as every database has it, and silver has it as 0. Tasks leave such keys to Spark.

The oracle is a dict, for which the two are one key as well; a PostgreSQL is one in test_unusual_keys_live.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as UNAVAILABLE_VALUE
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

ZEROS = (0.0, -0.0)
Row = dict[str, Any]


def change(offset: int, op: str, row: Row, keys: Sequence[str]) -> Record:
    """A delete has its key alone."""
    found = event(offset, None if op == "d" else row, op=op)
    return Record(offset, json.dumps({key: row[key] for key in keys}), found.value)


def folded(lake: Lake, spec: SilverSpec) -> dict[tuple[Any, ...], Any]:
    """Silver's rows by their key; each zero in a key is 0."""
    rows = values(spec.path)
    keys = [tuple(row[key] for key in spec.keys) for row in rows]
    assert len(set(keys)) == len(keys), keys
    assert [k for key in keys for k in key if isinstance(k, float) and k == 0 and math.copysign(1, k) < 0] == []
    return {key: row["v"] for key, row in zip(keys, rows, strict=True)}


@pytest.mark.parametrize("kind", ["double precision", "real"])
@pytest.mark.parametrize("keys", [("id",), ("id", "k")])
def test_zeros_of_a_key_are_one_row(session: SparkSession, tmp_path: Path, kind: str, keys: tuple[str, ...]) -> None:
    lake, random = Lake(session, tmp_path), Random(f"{kind} {keys}")
    spec = lake.spec("t", (Column("id", kind, False), Column("k", "integer", False), Column("v", "text")), keys)
    wanted: dict[tuple[Any, ...], Any] = {}
    for start in range(0, 24, 6):
        for offset in range(start, start + 6):
            row = {"id": random.choice((*ZEROS, *ZEROS, 1.5)), "k": random.choice((1, 2)), "v": f"v{offset}"}
            key = tuple(row[name] for name in keys)
            op = random.choice("uud") if key in wanted else "c"
            lake.put("t", change(offset, op, row, keys))
            if op == "d":
                del wanted[key]
            else:
                wanted[key] = row["v"]
        lake.append(lake.ranges("t", {0: start + 6}, start=start))
        lake.fold(spec)
        assert folded(lake, spec) == wanted
    assert lake.folded_by_tasks == 0


def test_zeros_in_an_array_of_a_key_are_one_row(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", (Column("id", "double precision[]", False), Column("v", "text")))
    for offset, zero in enumerate((-0.0, 0.0, -0.0)):
        lake.put("t", change(offset, "c" if offset == 0 else "u", {"id": [1.5, zero], "v": f"v{offset}"}, ("id",)))
        lake.append(lake.ranges("t", {0: offset + 1}, start=offset))
        lake.fold(spec)
        (row,) = values(spec.path)
        assert (str(row["id"]), row["v"]) == ("[1.5, 0.0]", f"v{offset}")


def test_a_value_beside_the_key_keeps_its_sign(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", (Column("id", "real", False), Column("v", "real")))
    lake.put("t", change(0, "c", {"id": -0.0, "v": -0.0}, ("id",)))
    lake.append(lake.ranges("t", {0: 1}))
    lake.fold(spec)
    assert [(str(row["id"]), str(row["v"])) for row in values(spec.path)] == [("0.0", "-0.0")]


def test_a_row_that_is_completed_has_no_other_key(session: SparkSession, tmp_path: Path) -> None:
    """Its events are put in order by a window, which keeps the sign of each."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", (Column("id", "double precision", False), Column("v", "text"), Column("w", "text")))
    rows = [{"id": 0.0, "v": "a", "w": "b"}, {"id": -0.0, "v": UNAVAILABLE_VALUE, "w": "c"}]
    lake.put("t", *(change(offset, op, row, ("id",)) for offset, (op, row) in enumerate(zip("cu", rows, strict=True))))
    lake.append(lake.ranges("t", {0: 2}))
    lake.fold(spec)
    assert [(str(row["id"]), row["v"], row["w"]) for row in values(spec.path)] == [("0.0", "a", "c")]
