"""Another key than the one that a table was folded by: stopped with what to do, and nothing in silver changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows
from spark.errors import RebuildNeededError
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_another_key_stops_the_table(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", (Column("id", "integer", False), Column("part", "integer", False)))
    lake.put("t", event(0, {"id": 1, "part": 1}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    before = rows(spec.path)
    lake.put("t", event(1, {"id": 1, "part": 2}))
    lake.append(lake.all_of("t"))
    with pytest.raises(RebuildNeededError, match=r"its key was \(id\) and is \(id, part\) now.*keys: \[id\]"):
        lake.fold(replace(spec, keys=("id", "part")))
    assert rows(spec.path) == before
    lake.fold(spec)
    assert [row["part"] for row in rows(spec.path)] == [2]
