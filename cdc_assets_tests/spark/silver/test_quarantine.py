"""Quarantine: what cannot be folded is kept once, blocks nothing, and takes its place in the order when it is mended."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.lake.quarantined import HISTORY, NARROW, WIDE, by_id, held
from spark.errors import TableStopError
from spark.silver import spark_merge
from spark.silver.quarantine_redrive import Choice, drop, drop_runs, redrive
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_killed_fold_keeps_each_record_once(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", NARROW)
    lake.put("t", *HISTORY)
    lake.append(lake.ranges("t", {0: 2}))
    lake.fold(spec)
    assert by_id(spec.path) == [{"id": 1, "n": 1}]
    lake.append(lake.all_of("t"))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(spark_merge, "execute", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.fold(spec)
    kept = {0, 2, 3, 5}
    assert {row["offset"] for row in rows(spec.quarantine)} == kept
    first = {row["offset"]: row["first_seen"] for row in rows(spec.quarantine)}
    lake.fold(spec)
    again = rows(spec.quarantine)
    assert sorted(row["offset"] for row in again) == sorted(kept)
    assert {row["offset"]: row["first_seen"] for row in again} == first
    assert by_id(spec.path) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    (poison,) = [row for row in again if row["offset"] == 0]
    assert (poison["value"], poison["row_key"], poison["error_class"]) == (b"poison at the head", None, "envelope")


def test_tasks_fold_a_table_again_once_no_row_is_in_doubt(session: SparkSession, tmp_path: Path) -> None:
    """A record in quarantine left the table to a job of its own for good; a later event says all of its row."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", NARROW)
    by_tasks = []
    for place, (key, number) in enumerate([(1, 1), (2, 70_000), (1, 2), (2, 3), (1, 4)]):
        lake.put("t", event(place, {"id": key, "n": number}))
        lake.append(lake.all_of("t"))
        lake.fold(spec)
        by_tasks.append(lake.folded_by_tasks)
    assert by_tasks == [1, 1, 1, 1, 2]
    assert by_id(spec.path) == [{"id": 1, "n": 4}, {"id": 2, "n": 3}]


@pytest.mark.all
def test_each_takes_its_own_place_once_the_column_is_wide_enough(session: SparkSession, tmp_path: Path) -> None:
    """Below what is newer."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", NARROW)
    lake.put("t", *HISTORY)
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    session.sql(f"ALTER TABLE delta.`{spec.path}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    session.sql(f"ALTER TABLE delta.`{spec.path}` ALTER COLUMN n TYPE int")
    wide = replace(spec, columns=WIDE)
    done = redrive(session, wide, Choice())
    assert (done.chosen, done.redriven) == (4, 3)
    assert session.read.format("delta").load(spec.path).select("id", "n").orderBy("id").collect() == [
        (1, 70000),
        (2, 2),
        (3, 70000),
    ]
    assert redrive(session, wide, Choice()).redriven == 0
    assert drop(session, wide, Choice(error_class="envelope")) == 1
    assert redrive(session, wide, Choice()).chosen == 0


@pytest.mark.all
def test_what_was_given_up_is_given_up_again_in_a_table_made_anew(session: SparkSession, tmp_path: Path) -> None:
    """As a restore does it: everything is folded anew, then these records alone are given up, and the rest stays open."""
    lake = Lake(session, tmp_path)
    lake.put("t", *HISTORY)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", NARROW)
    lake.fold(spec)
    topic = rows(spec.quarantine)[0]["topic"]
    assert drop(session, spec, Choice(offset=2)) == 1
    assert drop(session, spec, Choice(offset=3)) == 1
    wanted = {row["offset"]: row["dropped_at"] is not None for row in rows(spec.quarantine)}
    again = replace(spec, path=str(tmp_path / "again"), quarantine_path=str(tmp_path / "again-quarantine"))
    lake.fold(again)
    assert drop_runs(session, again, {topic: {0: [(2, 3)], 7: [(0, 9)]}}) == 2
    assert {row["offset"]: row["dropped_at"] is not None for row in rows(again.quarantine)} == wanted
    assert by_id(again.path) == by_id(spec.path)
    assert redrive(session, again, Choice()).chosen == 2
    assert drop_runs(session, again, {}) == 0


def test_the_limit_stops_the_table(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *HISTORY[:3])
    lake.append(lake.all_of("t"))
    spec = replace(lake.spec("t", NARROW), quarantine_limit=1)
    with pytest.raises(TableStopError, match=r"table t: 2 records in quarantine, its limit is 1; the first is .* offset 0"):
        lake.fold(spec)
    assert not Path(spec.path, "_delta_log").exists()
    lake.fold(replace(spec, quarantine_limit=2))
    assert by_id(spec.path) == [{"id": 1, "n": 1}]
    assert held(spec) == {(0, "envelope"), (2, "value")}


@pytest.mark.all
def test_without_a_key(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    columns = (Column("id", "integer", False), Column("b", "bytea"))
    good = base64.b64encode(b"x").decode()
    lake.put("t", event(0, {"id": 1, "b": "!!"}), event(1, {"id": 2, "b": good}))
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", columns, keys=())
    lake.fold(spec)
    assert values(spec.path) == [{"id": 2, "b": b"x"}]
    assert redrive(session, spec, Choice(offset=0)).redriven == 0
    assert drop(session, spec, Choice(offset=0)) == 1


def test_null_in_a_key_is_a_key_or_that_row_s_problem_alone(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": None, "n": 1}), event(1, {"id": 1, "n": 1}), event(2, {"id": None, "n": 2}, op="u"))
    lake.append(lake.all_of("t"))
    nullable = lake.spec("t", (Column("id", "integer"), Column("n", "smallint")))
    lake.fold(nullable)
    assert {(row["id"], row["n"]) for row in rows(nullable.path)} == {(None, 2), (1, 1)}
    strict = replace(lake.spec("t", NARROW), path=str(tmp_path / "strict"))
    lake.fold(strict)
    assert by_id(strict.path) == [{"id": 1, "n": 1}]
    assert {(row["offset"], row["error_class"]) for row in rows(strict.quarantine)} == {(0, "key"), (2, "key")}
