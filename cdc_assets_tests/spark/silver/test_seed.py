"""A history begun with the columns of one that was lost has its columns and its versions. Oracle: delta-rs reads both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from spark.silver import history_job as history
from spark.silver import history_versions
from spark.silver.column_ledger import PROPERTY, TRACKED, ColumnLedger
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

ID, V = Column("id", "integer", False, number=1), Column("v", "text", number=2)
FIRST = (ID, V, Column("gone", "text", number=3), Column("was", "integer", number=4), Column("n", "integer", number=5))
THEN = (ID, V, Column("now", "integer", number=4), Column("n", "text", number=5), Column("more", "text", number=6, missing="m"))
EVENTS: tuple[tuple[tuple[Column, ...], list[tuple[str, dict[str, Any] | None]]], ...] = (
    (
        FIRST,
        [
            ("c", {"id": 1, "v": "a", "gone": "x", "was": 1, "n": 1}),
            ("c", {"id": 2, "v": "a", "gone": "x", "was": 2, "n": 2}),
            ("c", {"id": 3, "v": "a", "gone": "x", "was": 3, "n": 3}),
            ("u", {"id": 1, "v": "a", "gone": "y", "was": 1, "n": 1}),
            ("u", {"id": 3, "v": "b", "gone": "x", "was": 4, "n": 3}),
        ],
    ),
    (
        THEN,
        [
            ("u", {"id": 1, "v": "b", "now": 1, "n": "one", "more": "m"}),
            ("d", {"id": 3}),
            ("c", {"id": 4, "v": "a", "now": 9, "n": "nine", "more": "o"}),
        ],
    ),
    (
        THEN,
        [
            ("u", {"id": 4, "v": "a", "now": 10, "n": "nine", "more": "o"}),
            ("c", {"id": 3, "v": "c", "now": 3, "n": "three", "more": None}),
            ("t", None),
            ("c", {"id": 2, "v": "z", "now": 7, "n": "two", "more": "m"}),
        ],
    ),
)


def records() -> list[list[Record]]:
    found, offset = list[list[Record]](), 0
    for _, batch in EVENTS:
        found.append([])
        for op, row in batch:
            sent = event(offset, None if op in "dt" else row, op=op)
            key = None if row is None else f'{{"id": {row["id"]}}}'
            found[-1].append(replace(sent, key=key))
            offset += 1
    return found


def told(path: str, *, without: Sequence[str] = ()) -> list[str]:
    """The rows, as delta-rs has them."""
    table = DeltaTable(path).to_pyarrow_table()
    names = sorted(name for name in table.column_names if name not in without)
    return sorted(map(str, table.select(names).to_pylist()))


def properties(path: str) -> dict[str, str]:
    found = DeltaTable(path).metadata().configuration
    return {name: found[name] for name in (PROPERTY, TRACKED)}


def without_rules(found: dict[str, str]) -> dict[str, Any]:
    """All of a restored history's rows were folded by the rules of today, whatever those of the lost one were."""
    return {TRACKED: found[TRACKED], PROPERTY: replace(ColumnLedger.from_text(found[PROPERTY]), made_by=())}


def types(path: str) -> dict[str, Any]:
    return {field.name: (str(field.type), field.metadata) for field in DeltaTable(path).schema().fields}


@pytest.mark.parametrize("tracked", [("v", "gone"), pytest.param((), marks=pytest.mark.all)])
def test_a_lost_history_comes_back(session: SparkSession, tmp_path: Path, tracked: tuple[str, ...]) -> None:
    """A column dropped, one renamed, one of another type, one added; with declared columns too, of which one is dropped."""
    lake = Lake(session, tmp_path)
    declared = replace(lake.spec("t"), path=str(tmp_path / "live"), truncate="apply")
    for (columns, _), batch in zip(EVENTS, records(), strict=True):
        lake.put("t", *batch)
        lake.append(lake.all_of("t"))
        names = {column.name for column in columns}
        live = replace(declared, columns=columns, track_history=tuple(name for name in tracked if name in names))
        history.run(session, live)
    restored, kept = replace(live, path=str(tmp_path / "restored")), properties(live.path)
    ledger = ColumnLedger.from_text(kept[PROPERTY])
    assert {c.name for c in ledger.columns} == {"id", "v", "gone", "was", "now", "n", "n__string", "more"}
    assert ledger.leftovers() == ("was",)

    assert history_versions.seed_history(session, restored, kept)
    assert history_versions.seed_history(session, restored, kept)  # as after a kill
    assert history.run(session, restored).rows_inserted == len(told(live.path))
    assert types(restored.path) == types(live.path)
    assert told(restored.path, without=["was"]) == told(live.path, without=["was"])
    assert without_rules(properties(restored.path)) == without_rules(kept)
    assert not history_versions.seed_history(session, restored, kept)
    assert history.run(session, restored).version is None
    _go_on(lake, session, live, restored)


def _go_on(lake: Lake, session: SparkSession, live: SilverSpec, restored: SilverSpec) -> None:
    """The next events make the same of both."""
    count = sum(map(len, records()))
    lake.put("t", event(count, {"id": 2, "v": "y", "now": 7, "n": "two", "more": "m"}, op="u"), event(count + 1, {"id": 9}))
    lake.append(lake.all_of("t"))
    for spec in (live, restored):
        history.run(session, spec)
    assert told(restored.path, without=["was"]) == told(live.path, without=["was"])


def test_without_the_ledger_the_dropped_column_is_lost(session: SparkSession, tmp_path: Path) -> None:
    """What a history that is born from the source's columns of now has: the reason for a seed."""
    lake = Lake(session, tmp_path)
    for batch in records():
        lake.put("t", *batch)
    lake.append(lake.all_of("t"))
    born = replace(lake.spec("t", THEN), path=str(tmp_path / "born"), truncate="apply")
    history.run(session, born)
    assert "gone" not in types(born.path)
