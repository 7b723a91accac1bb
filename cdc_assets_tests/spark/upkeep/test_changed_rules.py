"""Rules of a table that are changed in the registry: what the next runs do without a replay, and what a replay makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.lake.replayed import ReplayedTable
from cdc_assets_tests.support.lake.versions import COLUMNS, sent
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

NARROW = (Column("id", "integer", False), Column("v", "text"))
FIRST = [
    sent(0, 0, 1, "one", "n", "c"),
    sent(1, 1, 2, "two", "n", "c"),
    sent(2, 2, 1, "one", "noted", "u"),
    sent(3, 3, 2, None, None, "d"),
]


def versions(table: ReplayedTable) -> list[tuple[int, str, str]]:
    past = table.past
    assert past is not None
    return sorted((row["id"], row["v"], row["note"]) for row in rows(past.path))


def silver(table: ReplayedTable) -> list[tuple[Any, ...]]:
    """Key, value and whether it counts as deleted."""
    return sorted((row["id"], row["v"], row.get("_cdc_deleted")) for row in rows(table.spec.path))


def test_deletes_kept_as_rows_from_now_on_or_from_the_beginning(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, has_history=False)
    table.send(*FIRST)
    table.spec = replace(table.spec, deletes="soft")
    table.send(sent(4, 4, 3, "three", "n", "c"), sent(5, 5, 3, None, None, "d"))
    # Without a replay: only what is deleted from now on stays.
    assert {row["id"] for row in rows(table.spec.path)} == {1, 3}
    table.replay()
    assert silver(table) == [(1, "one", False), (2, "two", True), (3, "three", True)]
    # And back: without a replay the rows that were kept stay as they are.
    table.spec = replace(table.spec, deletes="hard")
    table.send(sent(6, 6, 1, None, None, "d"))
    assert {row["id"] for row in rows(table.spec.path)} == {2, 3}
    table.replay()
    assert silver(table) == []
    assert table.fold() == [None]


@pytest.mark.all
def test_other_columns_are_tracked_from_now_on_or_from_the_beginning(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    assert versions(table) == [(1, "one", "n"), (1, "one", "noted"), (2, "two", "n")]
    table.spec = replace(table.spec, track_history=("v",))
    table.send(sent(4, 4, 1, "one", "noted again", "u"))
    # Without a replay: the versions from before stay, and the change that is not tracked makes none.
    assert versions(table) == [(1, "one", "n"), (1, "one", "noted again"), (2, "two", "n")]
    table.replay()
    assert versions(table) == [(1, "one", "noted again"), (2, "two", "n")]
    table.spec = replace(table.spec, track_history=())
    assert table.fold() == [None, None]
    table.replay()
    assert versions(table) == [(1, "one", "n"), (1, "one", "noted"), (1, "one", "noted again"), (2, "two", "n")]


@pytest.mark.all
def test_a_history_that_is_no_longer_declared_stays_and_is_not_folded(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path)
    table.send(*FIRST)
    path, before = table.paths["history"], versions(table)
    table.has_history = False
    table.send(sent(4, 4, 1, "uno", "n", "u"))
    prepared, swapped = table.replay()
    assert set(swapped.now) == set(prepared.differences) == {"silver"}
    table.has_history = True
    assert versions(table) == before
    # Declared again, the next run folds what has come meanwhile.
    table.fold()
    assert len(rows(path)) == len(before) + 1
    assert table.compare().is_empty


@pytest.mark.all
def test_a_column_that_was_left_out_comes_from_now_on_or_from_the_beginning(session: SparkSession, tmp_path: Path) -> None:
    """`schema_changes: {add: ignore}`, changed to `evolve`."""
    table = ReplayedTable(session, tmp_path, NARROW, has_history=False)
    table.send(event(0, {"id": 1, "v": "one"}), event(1, {"id": 2, "v": "two"}))
    table.spec = replace(table.spec, columns=COLUMNS, schema_changes={"add": "ignore"})
    table.send(event(2, {"id": 1, "v": "one", "note": "left out"}, op="u"))
    assert values(table.spec.path) == [{"id": 1, "v": "one"}, {"id": 2, "v": "two"}]
    table.spec = replace(table.spec, schema_changes={})
    table.send(event(3, {"id": 2, "v": "two", "note": "from now on"}, op="u"))
    assert [row["note"] for row in values(table.spec.path)] == [None, "from now on"]
    table.replay()
    assert [row["note"] for row in values(table.spec.path)] == ["left out", "from now on"]
    table.undo()
    assert [row["note"] for row in values(table.spec.path)] == [None, "from now on"]


@pytest.mark.all
def test_a_column_of_except_column_list_stays_until_it_is_made_as_new(session: SparkSession, tmp_path: Path) -> None:
    """The source has it still, and sends it: nothing of that comes into the lake."""
    table = ReplayedTable(session, tmp_path, has_history=False)
    table.send(*FIRST[:2])
    table.spec = replace(table.spec, columns=NARROW, excluded=("note",))
    table.send(sent(2, 2, 1, "uno", "unseen", "u"))
    # Without a replay: rows that change have NULL in it, the others keep what they had.
    assert [(row["v"], row["note"]) for row in values(table.spec.path)] == [("uno", None), ("two", "n")]
    table.replay()
    assert "note" in values(table.spec.path)[0]
    prepared, _ = table.replay(as_new=True)
    assert any("note" in line for line in prepared.differences["silver"].schema)
    assert values(table.spec.path) == [{"id": 1, "v": "uno"}, {"id": 2, "v": "two"}]
    # Taken out of the list again, it is a new column: a replay has its values from bronze.
    table.spec = replace(table.spec, columns=COLUMNS, excluded=())
    table.fold()
    table.replay()
    assert [row["note"] for row in values(table.spec.path)] == ["unseen", "n"]


@pytest.mark.all
def test_a_key_for_a_table_that_had_none(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, keys=(), has_history=False)
    table.send(sent(0, 0, 1, "one", "n", "c"), sent(1, 1, 1, "one", "again", "c"), sent(2, 2, 2, "two", "n", "c"))
    table.spec = replace(table.spec, keys=("id",))
    table.send(sent(3, 3, 2, "two", "noted", "u"))
    # Without a replay: rows from before stay, several of one key.
    assert [row["id"] for row in values(table.spec.path)].count(1) == 2
    prepared, _ = table.replay()
    assert "silver: rows told apart by: append and key -> key" in prepared.rules
    assert sorted((row["id"], row["note"]) for row in values(table.spec.path)) == [(1, "again"), (2, "noted")]
    assert table.compare().is_empty


@pytest.mark.all
def test_rows_of_a_table_that_was_dropped_where_the_log_tells(session: SparkSession, tmp_path: Path) -> None:
    """`drop_table: evolve` after `lenient`. The place of the DROP is between the second event and the third."""
    table = ReplayedTable(session, tmp_path, has_history=False)
    table.spec = replace(table.spec, generation="0")
    table.send(*FIRST[:2])
    position = max(row["_cdc_position"] for row in rows(table.spec.path))
    place = position.rpartition(".")[0].partition(".")[2]
    table.spec = replace(table.spec, generation=place, drops=(place,))
    table.send(sent(2, 9, 3, "three", "n", "c"))
    assert {row["id"] for row in rows(table.spec.path)} == {1, 2, 3}
    table.spec = replace(table.spec, schema_changes={"drop_table": "evolve"})
    table.fold()
    assert {row["id"] for row in rows(table.spec.path)} == {1, 2, 3}
    table.replay()
    assert {row["id"] for row in rows(table.spec.path)} == {3}
