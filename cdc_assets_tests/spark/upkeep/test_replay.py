"""Tables broken by hand or folded by other rules, made again from bronze: what differs, what is there then, and the way back.

Read by delta-rs; what is right is what the table held before it was broken, or what is written down here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.lake.quarantined import HISTORY, NARROW, WIDE, by_id, held
from cdc_assets_tests.support.lake.replayed import ReplayedTable, Rows, told
from cdc_assets_tests.support.lake.versions import sent
from spark.errors import JobRefusedError, RebuildNeededError
from spark.silver import quarantine_redrive, quarantine_table
from spark.specs import Column
from spark.upkeep import replay_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = [sent(n, n, 1 + n % 5, f"v{n}", f"note{n}", "c" if n < 5 else "u") for n in range(12)]
LATER = [sent(12, 12, 2, None, None, "d"), sent(13, 13, 7, "seven", "x", "c")]


def break_silver(path: str) -> None:
    """Key 1 is gone, 2 is another, 3 is there twice, 9 is nobody's."""
    table = DeltaTable(path)
    three = next(row for row in rows(path) if row["id"] == 3)
    table.delete("id = 1")
    table.update(predicate="id = 2", updates={"note": "'broken'"})
    write_deltalake(
        path, pa.Table.from_pylist([three, {**three, "id": 9}], schema=table.to_pyarrow_table().schema), mode="append"
    )


def break_history(path: str) -> None:
    DeltaTable(path).delete("id = 4")
    DeltaTable(path).update(predicate="id = 5", updates={"v": "'broken'"})


def test_what_was_broken_is_shown_mended_and_taken_back(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    right = table.told()
    assert table.compare().is_empty
    break_silver(table.paths["silver"])
    break_history(table.paths["history"])
    broken = table.told()

    prepared, swapped = table.replay()
    silver, past = prepared.differences["silver"], prepared.differences["history"]
    assert silver.rows == {"added": 1, "changed": 1, "gone": 2, "moved": 0}
    assert silver.columns == {"note": 1}
    assert {"kind": "changed", "key": {"id": "2"}, "was": {"note": "broken"}, "now": {"note": "note11"}} in silver.examples
    assert (past.rows["added"], past.rows["changed"], past.columns) == (2, 2, {"v": 2})
    assert table.told() == right
    # One commit each, and the next run finds nothing to do: no gap, no repeat.
    assert swapped.now == {layer: DeltaTable(path).version() for layer, path in table.paths.items()}
    assert swapped.now["silver"] == swapped.before["silver"] + 1
    assert table.fold() == [None, None]
    table.send(*LATER)
    assert {row["id"] for row in rows(table.spec.path)} == {1, 3, 4, 5, 7}

    assert table.undo() == swapped.before
    assert table.told() == broken
    # What came behind it is folded by the next run, upon what was there before.
    assert None not in table.fold()
    assert {row["id"] for row in rows(table.spec.path)} == {3, 4, 5, 7, 9}
    with pytest.raises(JobRefusedError, match="no replay that is still to be undone"):
        table.undo()


@pytest.mark.all
def test_readers_see_one_table_or_the_other(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    right = told(table.spec.path)
    break_silver(table.spec.path)
    seen, over = [told(table.spec.path)], threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while not over.is_set():
                seen.append(told(table.spec.path))
        except BaseException as error:
            failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    table.replay()
    before = len(seen)
    table.undo()
    while len(seen) < before + 2 and not failed:
        over.wait(0.01)
    over.set()
    reader.join()
    assert not failed
    assert {str(each) for each in seen} == {str(right), str(seen[0])}
    assert seen[-1] == seen[0]


@pytest.mark.all
def test_another_key_is_offered_and_goes_through(session: SparkSession, tmp_path: Path) -> None:
    columns = (Column("id", "integer", False), Column("part", "integer", False), Column("v", "text"))
    table = ReplayedTable(session, tmp_path, columns)
    table.send(*[event(n, {"id": 1, "part": n, "v": f"v{n}"}) for n in range(3)])
    assert values(table.spec.path) == [{"id": 1, "part": 2, "v": "v2"}]
    table.spec = replace(table.spec, keys=("id", "part"))
    table.send(event(3, {"id": 1, "part": 0, "v": "new"}, op="u"), fold=False)
    with pytest.raises(RebuildNeededError, match="cdc replay source t"):
        table.fold()
    with pytest.raises(JobRefusedError, match=r"key: \(id\) -> \(id, part\).*whole table"):
        table.replay(keys=('{"id": 1, "part": 0}',))
    prepared, _ = table.replay()
    assert prepared.rules == tuple(f"{layer}: key: (id) -> (id, part)" for layer in ("silver", "history"))
    assert None not in table.fold()
    assert sorted(row["v"] for row in values(table.spec.path)) == ["new", "v1", "v2"]
    assert len(rows(table.paths["history"])) == 4
    # Back to the former key, under which the same runs go on.
    table.undo()
    with pytest.raises(RebuildNeededError, match="its key was"):
        table.fold()
    table.spec = replace(table.spec, keys=("id",))
    table.fold()
    assert [row["v"] for row in values(table.spec.path)] == ["new"]


@pytest.mark.all
def test_another_type_of_the_key_is_offered_and_goes_through(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, has_history=False)
    table.send(*FIRST)
    table.spec = replace(table.spec, columns=(Column("id", "text", False), *table.columns[1:]))
    with pytest.raises(Exception, match="cdc replay source t"):
        table.fold()
    prepared, _ = table.replay()
    assert prepared.differences["silver"].schema == ("~ id int -> string",)
    assert sorted(row["id"] for row in rows(table.spec.path)) == ["1", "2", "3", "4", "5"]
    table.fold()
    table.undo()
    assert sorted(row["id"] for row in rows(table.spec.path)) == [1, 2, 3, 4, 5]


@pytest.mark.all
def test_what_an_ordinary_run_has_folded_since_is_in_it(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    break_silver(table.spec.path)
    asked = table.asked()
    replay_job.prepare(session, asked)
    table.send(*LATER)
    table.send(sent(14, 14, 8, "eight", "x", "c"), fold=False)
    replay_job.swap(session, asked)
    # As far as the run had come, and no further; the next one goes on from there.
    assert {row["id"] for row in rows(table.spec.path)} == {1, 3, 4, 5, 7}
    table.fold()
    assert {row["id"] for row in rows(table.spec.path)} == {1, 3, 4, 5, 7, 8}
    assert table.fold() == [None, None]
    assert table.compare().is_empty


class Killed(BaseException):
    """The process is gone."""


PLACES = (
    # behind which call of which step, of silver and the history each
    *(pytest.param(name, at, marks=pytest.mark.all) for name, at in (("build_shadow", 1), ("move_files", 1), ("move_files", 2))),
    ("put_content", 1),
    pytest.param("put_content", 2, marks=pytest.mark.all),
)


def killed(step: Callable[..., Any], at: int, *, behind: bool) -> Callable[..., Any]:
    """The step, which dies at its n-th call."""
    calls = 0

    def run(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and not behind:
            raise Killed
        answer = step(*args, **more)
        if calls == at:
            raise Killed
        return answer

    return run


@pytest.mark.all
@pytest.mark.parametrize(("name", "at"), PLACES)
def test_killed_in_each_phase_and_run_again_it_is_the_same(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at: int
) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    right = table.told()
    break_silver(table.paths["silver"])
    break_history(table.paths["history"])
    broken = table.told()
    with monkeypatch.context() as patch:
        patch.setattr(replay_job, name, killed(getattr(replay_job, name), at, behind=True))
        with pytest.raises(Killed):
            table.replay()
    assert told(table.spec.path) == (right if (name, at) == ("put_content", 2) else broken)["silver"]
    prepared, _ = table.replay()
    assert table.told() == right
    undo_all(table, broken)
    assert table.told() == broken, prepared.differences


def undo_all(table: ReplayedTable, broken: dict[str, Rows]) -> None:
    """A replay that was killed behind its last commit is one of its own: its end and the next one are taken back one by one."""
    table.undo()
    if table.told() != broken:
        table.undo()


@pytest.mark.all
def test_an_undo_killed_between_its_tables_is_ended_by_the_next(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark.upkeep import replay_job as undo_job

    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    break_silver(table.paths["silver"])
    break_history(table.paths["history"])
    broken = table.told()
    table.replay()
    for at in (1, 2, 3):
        with monkeypatch.context() as patch:
            patch.setattr(undo_job, "_restore", killed(undo_job._restore, at, behind=False))
            with pytest.raises(Killed):
                table.undo()
    table.undo()
    assert table.told() == broken


@pytest.mark.all
def test_quarantine_follows_what_can_be_folded_today(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, NARROW)
    table.send(*HISTORY)
    assert held(table.spec) == {(0, "envelope"), (2, "value"), (3, "value"), (5, "value")}
    quarantine_redrive.drop(session, table.spec, quarantine_redrive.Choice(offset=5))
    table.spec = replace(table.spec, columns=WIDE)
    prepared, swapped = table.replay()
    assert (prepared.quarantined, prepared.folded) == (1, 2)
    # What was given up stays so; key 3 has nothing else.
    assert by_id(table.spec.path) == [{"id": 1, "n": 70000}, {"id": 2, "n": 2}]
    open_ = [row["offset"] for row in rows(table.spec.quarantine) if not (row["redriven_at"] or row["dropped_at"])]
    assert open_ == [0]
    assert table.compare().is_empty
    table.undo()
    again = [row["offset"] for row in rows(table.spec.quarantine) if not (row["redriven_at"] or row["dropped_at"])]
    assert sorted(again) == [0, 2, 3]
    assert DeltaTable(table.spec.path).version() == swapped.now["silver"] + 1
    assert quarantine_table.table(session, table.spec).count() == 4


@pytest.mark.all
def test_rows_of_keys_and_of_a_time(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    right = table.told()
    break_silver(table.spec.path)
    break_history(table.paths["history"])
    broken = table.told()
    prepared, _ = table.replay(keys=("1", "3", "9"))
    assert (prepared.chosen, prepared.differences["silver"].rows) == (3, {"added": 1, "changed": 0, "gone": 2, "moved": 0})
    left = [a for a, b in zip(told(table.spec.path), right["silver"], strict=True) if a != b]
    assert [dict(row)["note"] for row in left] == ["broken"]
    assert table.told()["history"] == broken["history"]
    table.undo()
    assert table.told() == broken
    for text, why in (("x", "no value of its key column 'id'"), ('{"v": 1}', 'write {"id": …}')):
        with pytest.raises(JobRefusedError, match=why):
            table.compare(keys=(text,))
    with pytest.raises(JobRefusedError, match="no time with a zone"):
        table.compare(since="yesterday")
    # All events carry one microsecond after 1970.
    assert table.compare(since="1970-01-01T00:00:01Z").chosen == 0
    table.replay(since="1970-01-01T00:00:00Z", until="1970-01-01T00:00:01Z")
    table.replay(keys=("9",))
    assert table.told() == right
    assert table.fold() == [None, None]


@pytest.mark.all
def test_a_table_whose_names_need_column_mapping(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, (Column("id", "integer", False), Column("a b", "text")), has_history=False)
    table.send(*[event(n, {"id": n, "a b": f"v{n}"}) for n in range(3)])
    before = session.read.format("delta").load(table.spec.path).orderBy("id").collect()
    session.sql(f"UPDATE delta.`{table.spec.path}` SET `a b` = 'broken' WHERE id = 1")
    table.replay()
    assert session.read.format("delta").load(table.spec.path).orderBy("id").collect() == before
    table.send(event(3, {"id": 1, "a b": "later"}, op="u"))
    table.undo()
    table.fold()
    found = {row["id"]: row["a b"] for row in session.read.format("delta").load(table.spec.path).collect()}
    assert found == {0: "v0", 1: "later", 2: "v2"}


@pytest.mark.all
def test_rows_without_a_key(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, keys=(), has_history=False)
    table.send(*FIRST)
    right = table.told()
    DeltaTable(table.spec.path).delete("v = 'v3'")
    write_deltalake(table.spec.path, DeltaTable(table.spec.path).to_pyarrow_table().slice(0, 1), mode="append")
    with pytest.raises(JobRefusedError, match="has no key"):
        table.compare(keys=("1",))
    prepared, _ = table.replay()
    assert prepared.differences["silver"].rows == {"added": 1, "changed": 0, "gone": 1, "moved": 0}
    assert table.told() == right
    assert table.fold() == [None]


def test_bronze_that_has_lost_records_is_told(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    DeltaTable(table.lake.bronze_path).delete("offset < 3")
    before = table.told()
    with pytest.raises(JobRefusedError, match="lacks 3 of the 12 records"):
        table.replay()
    assert table.told() == before


@pytest.mark.all
def test_a_history_that_is_declared_today_comes_with_it(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, has_history=False)
    table.send(*FIRST)
    table.has_history = True
    prepared, swapped = table.replay()
    assert prepared.differences["history"].rows["added"] == 12
    assert swapped.before["history"] == -1
    assert table.fold() == [None, None]
    table.undo()
    assert table.fold() == [None, None]
