"""Windowed results against DuckDB: late, shuffled, repeated, changed and deleted readings, run by run and in one batch."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.spark.upkeep.windowed_history import COLUMNS, History, by_panes, in_table, windows_of
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from spark.errors import JobRefusedError
from spark.specs import Column, SilverSpec
from spark.table.identifiers import table_at
from spark.upkeep import window_refinement
from spark.upkeep.declared_windows import Measure, WindowedSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


def play(session: SparkSession, folder: Path, seed: int, cuts: int) -> None:
    lake, history = Lake(session, folder, form=("json", "topic")), History(seed)
    silver = lake.spec("readings", COLUMNS, ["id"])
    tumbling = windows_of(folder, silver.path, "tumbling", size=3600, every=3600)
    hopping = windows_of(folder, silver.path, "hopping", size=5400, every=1800)
    done = 0
    for cut in range(cuts):
        ends = history.go_on(120 if cut == 0 else 40)
        lake.log.clear()
        lake.put("readings", *history.records)
        lake.append(lake.ranges("readings", {0: ends}, start=done))
        lake.fold(silver)
        done = ends
        if cut == 0:
            session.sql(f"ALTER TABLE {table_at(silver.path)} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        if cut == cuts - 2:
            continue  # the next run has two folds to look at
        for spec in (tumbling, hopping):
            result = window_refinement.refine_windows(session, spec)
            assert in_table(spec) == history.expected(spec), (seed, cut, spec.name)
            assert by_panes(spec) == [row[:-1] for row in in_table(spec)]
            assert result.detail.get("computed_whole", 0) == 0
    for spec in (tumbling, hopping):
        kept, count, differing = window_refinement.compare_with_batch(session, spec)
        assert (kept is not None, count, differing) == (True, len(in_table(spec)), 0)
        assert window_refinement.refine_windows(session, spec).version is None


def test_every_run_leaves_what_duckdb_computes(session: SparkSession, tmp_path: Path) -> None:
    play(session, tmp_path, seed=1, cuts=3)


@pytest.mark.all
@pytest.mark.parametrize("seed", range(2, 12))
def test_more_histories(session: SparkSession, tmp_path: Path, seed: int) -> None:
    play(session, tmp_path, seed=seed, cuts=8)


READING = (Column("id", "bigint", False), Column("at", "timestamp with time zone"), Column("f", "double precision"))
MINUTES: dict[str, Any] = {
    **{"event_time": "at", "size": 60, "every": 60, "delay": 0, "allowed_lateness": 60},
    "measures": (Measure("n", "count"), Measure("total", "sum", "f")),
}


class Readings:
    """Readings at seconds of the first day, each with a key of its own, in a silver table."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.lake, self.sent = session, Lake(session, folder, form=("json", "topic")), 0
        self.silver: SilverSpec = self.lake.spec("readings", READING, ["id"])
        path = str(folder / "windows" / "minutes")
        self.spec = WindowedSpec("source", "readings", "minutes", self.silver.path, path, f"{path}__panes", **MINUTES)

    def send(self, *seconds: float, value: float = 0.1) -> None:
        start = self.sent
        for second in seconds:
            at = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)
            said = json.dumps({"id": self.sent, "at": f"{at.isoformat()}Z", "f": value})
            self.lake.put("readings", Record(self.sent, json.dumps({"id": self.sent}), said))
            self.sent += 1
        self.lake.append(self.lake.ranges("readings", {0: self.sent}, start=start))
        self.lake.fold(self.silver)

    def results(self) -> dict[int, tuple[int, bool]]:
        """By start in seconds: readings, and whether the window is final."""
        return {int(row["window_start"].timestamp()): (row["n"], row["is_final"]) for row in rows(self.spec.path)}

    def panes(self, version: int) -> list[tuple[int, int, str, int]]:
        """Start, sign, pane and readings of what was said of a version of silver."""
        said = [row for row in rows(self.spec.panes_path) if row["silver_version"] == version]
        return sorted((int(r["window_start"].timestamp()), r["pane_sign"], r["pane"], r["n"]) for r in said)


@pytest.fixture
def readings(session: SparkSession, tmp_path: Path) -> Readings:
    return Readings(session, tmp_path)


def test_what_was_said_is_taken_back_and_named_by_how_late_it_is(readings: Readings) -> None:
    readings.send(10, 70, 130)
    begun = window_refinement.refine_windows(readings.session, readings.spec).detail["silver_version"]
    # The watermark is at 130 s: 60 s of lateness have passed the end of the first window.
    assert readings.results() == {0: (1, True), 60: (1, False), 120: (1, False)}
    assert readings.panes(begun) == [(0, 1, "on_time", 1), (60, 1, "on_time", 1), (120, 1, "early", 1)]
    readings.send(20, 80, 140, 200)
    told = window_refinement.refine_windows(readings.session, readings.spec)
    assert readings.results() == {0: (2, True), 60: (2, True), 120: (2, False), 180: (1, False)}
    assert readings.panes(told.detail["silver_version"]) == [
        *[(0, -1, "after_final", 1), (0, 1, "after_final", 2), (60, -1, "late", 1), (60, 1, "late", 2)],
        *[(120, -1, "on_time", 1), (120, 1, "on_time", 2), (180, 1, "early", 1)],
    ]
    counts = {name: told.detail[f"panes_{name}"] for name in ("early", "on_time", "late", "after_final")}
    assert counts == {"early": 1, "on_time": 2, "late": 2, "after_final": 2}
    assert (told.rows_inserted, told.rows_updated, told.rows_deleted, told.detail["watermark"]) == (1, 3, 0, 200_000_000)
    # The same rows in other files: nothing is said, and the place is kept.
    DeltaTable(readings.silver.path).optimize.compact()
    again = window_refinement.refine_windows(readings.session, readings.spec).detail["silver_version"]
    assert (again > told.detail["silver_version"], readings.panes(again)) == (True, [])
    assert window_refinement.refine_windows(readings.session, readings.spec).version is None


@pytest.mark.all
def test_where_files_of_before_are_gone_everything_is_computed(readings: Readings) -> None:
    readings.send(10, 70)
    window_refinement.refine_windows(readings.session, readings.spec)
    readings.send(20)
    DeltaTable(readings.silver.path).optimize.compact()
    DeltaTable(readings.silver.path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    told = window_refinement.refine_windows(readings.session, readings.spec)
    assert (told.detail["computed_whole"], readings.results()) == (1, {0: (2, False), 60: (1, False)})
    assert readings.panes(told.detail["silver_version"]) == [(0, -1, "late", 1), (0, 1, "late", 2)]


@pytest.mark.all
def test_another_silver_or_declaration_begins_anew(readings: Readings) -> None:
    readings.send(10, 70)
    window_refinement.refine_windows(readings.session, readings.spec)
    longer = replace(readings.spec, size=120, every=120)
    window_refinement.refine_windows(readings.session, longer)
    assert readings.results() == {0: (2, False)}
    shutil.rmtree(readings.silver.path)
    readings.send(75)
    told = window_refinement.refine_windows(readings.session, longer)
    assert (told.detail["computed_whole"], readings.results()) == (1, {0: (3, False)})
    with pytest.raises(JobRefusedError, match=r"silver has no column gone; it has id, at, f"):
        window_refinement.refine_windows(readings.session, replace(longer, event_time="gone"))


@pytest.mark.all
def test_a_result_that_is_not_the_batchs_is_counted(readings: Readings) -> None:
    readings.send(10, 70, value=0.1)
    readings.send(11, 12, value=1e16)
    assert window_refinement.compare_with_batch(readings.session, readings.spec) == (None, 0, 0)
    window_refinement.refine_windows(readings.session, readings.spec)
    assert window_refinement.compare_with_batch(readings.session, readings.spec)[1:] == (2, 0)
    # In whatever order they came: added from the smallest on.
    assert {row["total"] for row in rows(readings.spec.path)} == {0.1, 0.1 + 1e16 + 1e16}
    DeltaTable(readings.spec.path).update(updates={"n": "7"}, predicate="n = 1")
    assert window_refinement.compare_with_batch(readings.session, readings.spec)[1:] == (2, 1)
    DeltaTable(readings.spec.path).delete("n = 3")
    assert window_refinement.compare_with_batch(readings.session, readings.spec)[1:] == (1, 2)
