"""Small tables in the tasks of one job: what a task folds, what it leaves, and what becomes of both when something dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.silver import fold_job as silver
from spark.silver.small_tables import SmallTableOutcome, SmallTablesSpec, run
from spark.specs import Column, SilverSpec
from spark.table import write_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column("v", "text"))


class Source:
    """Tables whose rows are known."""

    def __init__(self, session: SparkSession, root: Path, *tables: str) -> None:
        self.session, self.lake, self.tables = session, Lake(session, root), tables
        self.rows: dict[str, dict[int, str]] = {table: {} for table in tables}
        self.offset = 0

    def write(self, table: str, op: str, key: int, **more: Any) -> None:
        """One event."""
        value = f"{op}{self.offset}"
        row = {"id": key, "v": value}
        record = event(self.offset, None if op == "d" else row, op=op, **more)
        record.key = json.dumps({"id": key})
        self.lake.put(table, record)
        self.offset += 1
        if op == "d":
            self.rows[table].pop(key, None)
        else:
            self.rows[table][key] = value

    def append(self) -> None:
        self.lake.append(*[self.lake.all_of(table) for table in self.tables])

    def spec(self, table: str) -> SilverSpec:
        return self.lake.spec(table, COLUMNS)

    def fold(self) -> list[SmallTableOutcome]:
        return run(self.session, SmallTablesSpec(tuple(self.spec(table) for table in self.tables)))

    def check(self) -> None:
        """Silver, read by delta-rs and by Spark, against what was written."""
        for table in self.tables:
            path = self.spec(table).path
            assert {row["id"]: row["v"] for row in values(path)} == self.rows[table], table
            found = self.session.read.format("delta").load(path).select("id", "v").collect()
            assert {row.id: row.v for row in found} == self.rows[table], table

    def check_second_fold(self) -> None:
        """Of one table: a commit, then nothing more to do, and the rows that were written."""
        for version in (1, None):
            [outcome] = self.fold()
            assert outcome.result is not None, outcome.left
            assert outcome.result.version == version
        self.check()


def one_row_in_bronze(session: SparkSession, root: Path) -> Source:
    source = Source(session, root, "t")
    source.write("t", "c", 1)
    source.append()
    return source


def test_many_tables_in_one_job(session: SparkSession, tmp_path: Path) -> None:
    source = Source(session, tmp_path, *[f"t{n}" for n in range(7)])
    for step in range(3):
        for number, table in enumerate(source.tables):
            source.write(table, "c" if step == 0 else "u", number)
            source.write(table, "c", 100 * step + number + 1)
            if step == 2:
                source.write(table, "d", number)
        source.append()
        outcomes = source.fold()
        assert [outcome.left for outcome in outcomes] == [""] * 7
        assert all(outcome.result is not None and outcome.result.version == step for outcome in outcomes)
        source.check()
    assert all(outcome.result is not None and outcome.result.version is None for outcome in source.fold())


def test_one_table_is_left_and_the_others_are_folded(session: SparkSession, tmp_path: Path) -> None:
    source = Source(session, tmp_path, "plain", "truncated", "late", "broken")
    for table in source.tables:
        source.write(table, "c", 1)
    source.append()
    source.fold()
    for table in source.tables:
        source.write(table, "u", 1)
    source.lake.put("truncated", event(source.offset, None, op="t"))
    source.offset += 1
    source.rows["truncated"].clear()
    old = event(source.offset, {"id": 9, "v": "old"}, source={"lsn": 1, "sequence": '["1", "1"]', "txId": 1})
    source.lake.put("late", old)
    source.rows["late"][9] = "old"
    source.lake.put("broken", event(source.offset, {"id": "x", "v": "y"}))
    source.offset += 1
    source.append()
    reasons = dict(zip(source.tables, source.fold(), strict=True))
    assert [reasons[table].left for table in ("plain", "truncated", "late")] == [""] * 3
    late = reasons["late"].result
    assert late is not None
    assert (late.detail["late_events"], late.detail["refolded_keys"]) == (1, 1)
    assert reasons["broken"].left.startswith("a record that has other fields")
    before = DeltaTable(source.spec("broken").path).version()
    assert silver.run(session, source.spec("broken")).version is not None
    assert DeltaTable(source.spec("broken").path).version() > before
    source.check()
    assert session.read.format("delta").load(source.spec("broken").quarantine).count() == 1


@pytest.mark.parametrize(
    ("change", "at_birth", "reason"),
    [
        ({"truncate": "soft"}, True, "rows below a TRUNCATE stay"),
        ({"columns": (*COLUMNS, Column("p", "polygon"))}, True, "column 'p' has type polygon, which Spark reads"),
        ({"columns": (*COLUMNS, Column("a b", "text"))}, True, "a column has a name that Spark writes"),
        ({"columns": (*COLUMNS, Column("more", "text"))}, False, "the source's columns have changed"),
        ({"keys": ("id", "v")}, False, "table t: its key was (id) and is (id, v) now"),
    ],
)
def test_a_declaration_that_only_spark_knows(
    session: SparkSession, tmp_path: Path, change: dict[str, Any], at_birth: bool, reason: str
) -> None:
    source = one_row_in_bronze(session, tmp_path)
    spec = replace(source.spec("t"), **change)
    silver.run(session, spec if at_birth else source.spec("t"))
    before = DeltaTable(spec.path).version()
    source.write("t", "c", 2)
    source.append()
    [outcome] = run(session, SmallTablesSpec((spec,)))
    assert outcome.result is None
    assert outcome.left.startswith(reason)
    assert DeltaTable(spec.path).version() == before


@pytest.mark.all
def test_places_and_circles_are_the_same_by_both_writers(session: SparkSession, tmp_path: Path) -> None:
    source, rows = Source(session, tmp_path, "t"), {}
    spec = replace(source.spec("t"), columns=(COLUMNS[0], Column("p", "point"), Column("c", "circle")))
    for step in range(4):
        for key in (1, 2, 10 + step):
            point = None if key == 2 and step % 2 else {"x": 0.1 * step, "y": -7.5, "wkb": "AAAA", "srid": None}
            circle = {"center": {"x": float(key), "y": 1e300}, "radius": step + 0.25}
            record = event(source.offset, {"id": key, "p": point, "c": circle}, op="c" if key > 2 or step == 0 else "u")
            record.key, source.offset = json.dumps({"id": key}), source.offset + 1
            source.lake.put("t", record)
            told = None if point is None else {"x": point["x"], "y": point["y"]}
            rows[key] = (told, {"x": float(key), "y": 1e300, "radius": step + 0.25})
        source.append()
        if step % 2:
            assert silver.run(session, spec).version == step
        else:
            [outcome] = run(session, SmallTablesSpec((spec,)))
            assert outcome.result is not None, outcome.left
            assert outcome.result.version == step
        assert {row["id"]: (row["p"], row["c"]) for row in values(spec.path)} == rows
        found = [row.asDict(recursive=True) for row in session.read.format("delta").load(spec.path).collect()]
        assert {row["id"]: (row["p"], row["c"]) for row in found} == rows


@pytest.mark.parametrize("without_key", [pytest.param("append", marks=pytest.mark.all), "multiset"])
def test_a_table_without_a_key_gets_its_inserts_from_a_task(session: SparkSession, tmp_path: Path, without_key: str) -> None:
    source, rows = Source(session, tmp_path, "t"), list[str]()
    spec = replace(source.spec("t"), keys=(), without_key=without_key)

    def insert(text: str, *, op: str = "c", **more: Any) -> None:
        record = event(source.offset, {"id": 1, "v": text}, op=op, **more)
        record.key, source.offset = None, source.offset + 1
        source.lake.put("t", record)

    def fold(reason: str = "") -> None:
        source.append()
        [outcome] = run(session, SmallTablesSpec((spec,)))
        assert outcome.left == reason
        if outcome.result is None:
            assert silver.run(session, spec).version is not None
        assert sorted(row["v"] for row in values(spec.path)) == sorted(rows)
        assert sorted(row.v for row in session.read.format("delta").load(spec.path).collect()) == sorted(rows)

    insert("first"), rows.append("first")
    fold("a table without a key begins")
    for number in range(3):
        insert("same"), insert(f"own {number}"), rows.extend(["same", f"own {number}"])
        fold()
    insert("first", source={"lsn": 1, "sequence": '["1", "1"]', "txId": 1})
    insert("behind it"), rows.append("behind it")
    fold("an event comes late")
    insert("again"), rows.append("again")
    fold()
    assert len(DeltaTable(spec.path).file_uris()) < DeltaTable(spec.path).version()


def test_what_a_task_leaves_of_a_table_without_a_key(session: SparkSession, tmp_path: Path) -> None:
    source = Source(session, tmp_path, "t")
    spec = replace(source.spec("t"), keys=(), without_key="multiset")
    before = {"before": {"id": 1, "v": "one"}}
    for op, row, more in (("c", {"id": 1, "v": "one"}, {}), ("c", {"id": 1, "v": "two"}, {}), ("d", None, before)):
        record = event(source.offset, row, op=op, **more)
        record.key, source.offset = None, source.offset + 1
        source.lake.put("t", record)
        source.append()
        [outcome] = run(session, SmallTablesSpec((spec,)))
        if outcome.result is None:
            silver.run(session, spec)
    assert outcome.left == "a record of a table without a key that is no insert"
    assert [row["v"] for row in values(spec.path)] == ["two"]


def test_a_worker_that_dies_commits_nothing_and_spark_goes_on(session: SparkSession, tmp_path: Path) -> None:
    source = one_row_in_bronze(session, tmp_path)
    source.fold()
    source.write("t", "u", 1)
    source.append()
    path = source.spec("t").path
    # A task that finds the table held waits there, and dies there.
    with subprocess.Popen([sys.executable, "-c", _KILLER, str(Path(path, write_lease.LOCK_FILE)), str(os.getpid())]) as killer:
        with write_lease.lend_to_spark(path):
            [outcome] = source.fold()
        assert killer.wait(60) == 0
    assert outcome.left.startswith("the job of small tables failed"), outcome
    assert DeltaTable(source.spec("t").path).version() == 0
    assert silver.run(session, source.spec("t")).version == 1
    source.check()


_KILLER = """
import os, signal, sys, time
from pathlib import Path

def opener(lock):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name not in (str(os.getpid()), sys.argv[2]):
            try:
                names = [os.readlink(link) for link in (entry / "fd").iterdir()]
            except OSError:
                continue
            if lock in names:
                return int(entry.name)
    return None

while (pid := opener(sys.argv[1])) is None:
    time.sleep(0.01)
os.kill(pid, signal.SIGKILL)
"""


def test_checkpoints_come_and_both_read_them(session: SparkSession, tmp_path: Path) -> None:
    source = Source(session, tmp_path, "t")
    source.write("t", "c", 0)
    source.append()
    source.fold()
    session.sql(f"ALTER TABLE delta.`{source.spec('t').path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    for key in range(1, 8):
        source.write("t", "c", key)
        source.append()
        [outcome] = source.fold()
        assert outcome.left == ""
    assert list(Path(source.spec("t").path, "_delta_log").glob("*.checkpoint.parquet"))
    source.check()


def test_changes_that_change_no_row_are_folded_once(session: SparkSession, tmp_path: Path) -> None:
    source = one_row_in_bronze(session, tmp_path)
    source.fold()
    source.write("t", "c", 2)
    source.write("t", "d", 2)
    source.append()
    source.check_second_fold()


def test_a_range_without_records_is_folded(session: SparkSession, tmp_path: Path) -> None:
    """Control records alone: the topic has gone on, and there is nothing to read."""
    source = one_row_in_bronze(session, tmp_path)
    source.fold()
    source.lake.append(source.lake.ranges("t", {0: source.offset + 3}))
    source.check_second_fold()


def test_a_table_of_somebody_elses_is_left(session: SparkSession, tmp_path: Path) -> None:
    source = one_row_in_bronze(session, tmp_path)
    session.range(3).write.format("delta").save(source.spec("t").path)
    [outcome] = source.fold()
    assert outcome.left == "no commit of the table is ours"
    assert DeltaTable(source.spec("t").path).version() == 0


def test_where_no_task_can_run_all_is_left(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster whose executors lack this package."""
    source = one_row_in_bronze(session, tmp_path)
    monkeypatch.setattr("spark.silver.small_tables.fold_group", _broken)
    [outcome] = source.fold()
    assert outcome.left.startswith("the job of small tables failed")
    assert not Path(source.spec("t").path, "_delta_log").exists()


def _broken(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
