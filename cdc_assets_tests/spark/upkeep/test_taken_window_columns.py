"""Windows over columns that are called as names of ours: Python is the oracle."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from spark.errors import JobRefusedError
from spark.specs import Column
from spark.upkeep import window_refinement
from spark.upkeep.declared_windows import Measure, WindowedSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = ("said", "cdc_file", "cdc_event_micros", "cdc_gone", "window_start", "window_end", "is_final", "says", "_metadata")
COLUMNS = (Column("id", "bigint", False), Column("at", "timestamp with time zone"), *(Column(n, "bigint") for n in NUMBERS))
BY = ("said", "cdc_file")


def row_of(number: int) -> dict[str, Any]:
    at = dt.datetime(1970, 1, 1) + dt.timedelta(minutes=11 * number)
    return {"id": number, "at": f"{at.isoformat()}Z", **{name: number * (place + 2) % 7 for place, name in enumerate(NUMBERS)}}


def expected_of(numbers: int) -> dict[tuple[int, int, int], list[int]]:
    """By said, cdc_file and the window's begin in minutes: the sum of each column, as `sum_…`."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for row in map(row_of, range(numbers)):
        key = (row["said"], row["cdc_file"], 11 * row["id"] // 60 * 60)
        sums = found.setdefault(key, [0] * len(NUMBERS))
        found[key] = [total + row[name] for total, name in zip(sums, NUMBERS, strict=True)]
    return found


@pytest.mark.all
def test_figures_are_those_of_the_columns(session: SparkSession, tmp_path: Path) -> None:
    """Also when they are brought up to new rows, in windows that have results already."""
    lake = Lake(session, tmp_path, form=("json", "topic"))
    silver, path, sent = lake.spec("readings", COLUMNS, ["id"]), str(tmp_path / "windows"), 0
    spec = WindowedSpec(
        **{"source": "source", "table": "readings", "name": "hours", "silver_path": silver.path, "path": path},
        panes_path=f"{path}__panes",
        event_time="at",
        size=3600,
        every=3600,
        by=BY,
        measures=tuple(Measure(f"sum_{name}", "sum", name) for name in NUMBERS),
    )
    for until in (40, 60):
        for number in range(sent, until):
            lake.put("readings", Record(number, json.dumps({"id": number}), json.dumps(row_of(number))))
        lake.append(lake.ranges("readings", {0: until}, start=sent))
        lake.fold(silver)
        sent = until
        result = window_refinement.refine_windows(session, spec)
        assert result.detail.get("computed_whole", 0) == 0
        found = {
            (row["said"], row["cdc_file"], int(row["window_start"].timestamp()) // 60): [
                int(row[f"sum_{name}"]) for name in NUMBERS
            ]
            for row in rows(path)
        }
        assert found == expected_of(until)
    assert window_refinement.compare_with_batch(session, spec)[2] == 0


def test_a_measure_has_no_name_of_ours() -> None:
    said = {"source": "s", "table": "t", "name": "w", "silver_path": "-", "path": "-", "panes_path": "-", "event_time": "at"}
    with pytest.raises(JobRefusedError, match="the name _cdc_gone is a window's own"):
        WindowedSpec(**said, size=60, every=60, measures=(Measure("_cdc_gone", "count"),))
