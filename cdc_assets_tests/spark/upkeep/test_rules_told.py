"""Rules changed in the registry: the check `schema` offers the replay, before the next run and behind it, until it is done.

Events of a topic, the registry's file, Dagster's check, the command; delta-rs reads what the tables hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.lake.declared_table import WIDE, DeclaredTable
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.lake.versions import sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

FIRST = [
    sent(0, 0, 1, "one", "n", "c"),
    sent(1, 1, 2, "two", "n", "c"),
    sent(2, 2, 1, "one", "noted", "u"),
    sent(3, 3, 2, None, None, "d"),
]


@pytest.fixture
def table(session: SparkSession, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeclaredTable:
    file = declare(tmp_path, monkeypatch, SOURCE, "source")
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    return DeclaredTable(file, Lake(session, tmp_path / "lake"))


def in_silver(table: DeclaredTable) -> list[tuple[int, Any]]:
    """Keys, and whether their row counts as deleted."""
    return sorted((row["id"], row.get("_cdc_deleted")) for row in rows(table.path))


def test_rules_of_rows_and_of_versions(table: DeclaredTable) -> None:
    scd2 = {"history": "scd2"}
    table.declare(**scd2)
    table.send(*FIRST)
    assert table.check()[0] is True
    assert len(rows(table.past)) == 3

    soft = {**scd2, "deletes": "soft", "track_history_column_list": ["v"]}
    table.declare(**soft)
    deletes, tracked = "deletes: soft is declared, and silver was folded by hard", "the history was folded by (note, v)"
    command = ": cdc replay source t makes the whole table as it is declared now"
    assert table.offered() == f"{deletes}; tracked columns: (v) is declared, and {tracked}{command}"
    table.send(sent(4, 4, 3, "three", "n", "c"), sent(5, 5, 3, None, None, "d"))
    assert in_silver(table) == [(1, None), (3, True)]
    assert table.offered().startswith("deletes: soft is declared, and silver was folded by hard and soft; tracked columns: (v)")
    # Declared as before again, the rows of between are still there.
    table.declare(**scd2)
    assert "deletes: hard is declared, and silver was folded by hard and soft" in table.offered()

    table.declare(**soft)
    done = table.replay()
    assert done["swapped"] is True
    assert "silver: deletes: hard and soft -> soft" in done["rules"]
    assert "history: tracked columns: (note, v) and (v) -> (v)" in done["rules"]
    assert table.check()[0] is True
    assert in_silver(table) == [(1, False), (2, True), (3, True)]
    assert sorted((row["id"], row["note"]) for row in rows(table.past)) == [(1, "noted"), (2, "n"), (3, "n")]
    table.send(sent(6, 6, 4, "four", "n", "c"))
    assert table.check()[0] is True
    table.replay("--undo")
    assert "silver was folded by hard and soft" in table.offered()


def test_a_column_that_the_registry_leaves_out(table: DeclaredTable) -> None:
    """The source has it still, and nothing halts. One that the source has dropped is told otherwise."""
    halt = {"schema_changes": {"drop": "halt"}}
    table.declare(**halt)
    table.send(*FIRST[:2])
    table.declare(except_column_list=["note"], **halt)
    offer = (
        "except_column_list leaves out note, and silver still has what earlier rows held there: "
        "cdc replay source t --as-new makes the whole table as it is declared now"
    )
    assert table.offered() == offer
    table.send(sent(2, 2, 1, "uno", "unseen", "u"))
    assert table.offered() == offer
    assert {row["id"]: row["note"] for row in values(table.path)} == {1: None, 2: "n"}
    assert table.replay("--as-new")["swapped"] is True
    assert table.check()[0] is True
    assert sorted(map(str, values(table.path))) == ["{'id': 1, 'v': 'uno'}", "{'id': 2, 'v': 'two'}"]

    # Taken out of the list, it comes as a new column: bronze has what it held meanwhile.
    table.declare(**halt)
    late = "note was left out by the registry for a time, and rows from then lack its values: cdc replay source t makes"
    assert table.offered().startswith(late)
    table.send(sent(3, 3, 2, "zwei", "seen", "u"))
    assert table.offered().startswith(late)
    assert {row["id"]: row["note"] for row in values(table.path)} == {1: None, 2: "seen"}
    assert table.replay()["swapped"] is True
    assert table.check()[0] is True
    assert {row["id"]: row["note"] for row in values(table.path)} == {1: "unseen", 2: "seen"}

    table.declare(columns={name: kind for name, kind in WIDE.items() if name != "note"})
    table.send(sent(4, 4, 1, "eins", None, "u"))
    passed, said = table.check()
    assert (passed, "- note text (drop: kept, and no longer filled)" in said) == (True, True)


@pytest.mark.all
def test_policies_for_changes_of_the_source(table: DeclaredTable) -> None:
    """A column that was ignored, and one that kept its former name."""
    narrow = {name: kind for name, kind in WIDE.items() if name != "note"}
    ignoring = {"schema_changes": {"add": "ignore", "rename": "ignore"}}
    table.declare(columns=narrow, **ignoring)
    table.send(*FIRST[:1])
    table.declare(**ignoring)
    table.send(*FIRST[1:3])
    assert table.check()[0] is True
    renamed = {"columns": {"id": "integer not null", "w": "text", "note": "text"}, "renamed": {"v": "w"}}
    table.declare(**renamed, **ignoring)
    table.send()
    assert table.check()[0] is True
    assert values(table.path)[0].keys() == {"id", "v"}

    table.declare(**renamed)
    said = table.offered()
    assert said.startswith("note was left out by the registry for a time, and rows from then lack its values; ")
    assert "schema_changes.rename is evolve, and in silver w is still v: cdc replay source t --as-new makes" in said
    table.send()
    assert table.offered() == said
    assert table.replay("--as-new")["swapped"] is True
    assert table.check()[0] is True
    found = {row["id"]: (row["w"], row["note"]) for row in values(table.path)}
    assert found == {1: ("one", "noted"), 2: ("two", "n")}
    # Policies that say only what a coming change does.
    table.declare(**renamed, schema_changes={"widen": "ignore", "change": "halt", "drop": "halt", "nullability": "halt"})
    assert table.check()[0] is True
    table.send()
    assert table.check()[0] is True


@pytest.mark.all
def test_a_truncate_that_is_ignored(table: DeclaredTable) -> None:
    table.declare()
    table.send(*FIRST[:2])
    table.declare(truncate="ignore")
    # No row was truncated yet, so by either rule the same rows are there.
    assert table.check()[0] is True
    table.declare()
    table.send(sent(2, 2, 0, None, None, "t"), sent(3, 3, 3, "three", "n", "c"))
    table.declare(truncate="ignore")
    assert table.offered().startswith("truncate: ignore is declared, and silver was folded by apply: cdc replay source t makes")
    table.replay()
    assert table.check()[0] is True
    assert sorted(row["id"] for row in rows(table.path)) == [1, 2, 3]
