"""Parts of rows, events that come late or again, and TRUNCATEs, folded as a task does it and in this process, without a JVM.

Whatever the cuts, the table ends as the source, and its view is what the next fold makes of it.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from spark.errors import LeftToSparkError
from spark.record_formats import UNCHANGED_HEADER
from spark.silver import task_merge
from spark.silver.arrow_view import open_silver, read_now
from spark.silver.small_table_fold import SmallTable, fold_tables
from spark.specs import DELETED, Column
from spark.table.commit_metadata import fold, surviving
from spark.table.log_reader import newest_commits

COLUMNS = (
    Column("id", "integer", False),
    Column("n", "integer"),
    Column("a", "text"),
    Column("b", "text[]"),
    Column("c", "integer[]"),
    Column("d", "bytea"),
    Column("absent", "text"),
    Column("offset", "integer"),
)
OWN = "a marker of this table"
HEADER = {UNCHANGED_HEADER: OWN}
GAPS: dict[str, Any] = {"a": OWN, "b": [OWN], "c": [*OWN.encode()], "d": "YSBtYXJrZXIgb2YgdGhpcyB0YWJsZQ=="}


class Play:
    """A table, and its rows as they are at the source."""

    def __init__(self, root: Path, seed: int, deletes: str = "hard") -> None:
        self.chosen = random.Random(seed)
        self.lake = Lake(None, root, not_compared="no Spark")  # type: ignore[arg-type]
        self.spec = replace(self.lake.spec("t", COLUMNS), deletes=deletes)
        self.deleted: dict[int, dict[str, Any]] = {}
        self.rows: dict[int, dict[str, Any]] = {}
        self.postponed: list[Record] = []
        self.offset = 0

    def act(self, place: int) -> None:
        """Something happens at the source, and is sent at once or later; what was sent may be sent again."""
        key = self.chosen.randrange(12)
        row = {"id": key, "n": place, "a": self.chosen.choice(["x", GAP[:3], None]), "b": self.chosen.choice([["p"], [], None])}
        row |= {"c": self.chosen.choice([[1, 2], None]), "d": self.chosen.choice(["AAE=", None])}
        row |= {"absent": "a word", "offset": place}
        before = self.rows.get(key)
        if self.chosen.random() < 0.02:
            self.rows.clear()
            self.deleted.clear()
            self.send(replace(event(place, None, op="t"), key=None))
        elif before is None:
            self._change(place, row, row, "c")
        elif self.chosen.random() < 0.2:
            self.send(Record(0, f'{{"id": {key}}}', event(place, None, op="d").value), later=self.chosen.random() < 0.2)
            self.deleted[key] = self.rows.pop(key)
        else:
            kept = [name for name in GAPS if self.chosen.random() < 0.5]
            whole = {**row, **{name: before[name] for name in kept}}
            self._change(place, {**row, **{name: GAPS[name] for name in kept}}, whole, "u")
        if self.chosen.random() < 0.1:
            self.send(self.chosen.choice([r for r in self.lake.log["t"][0] if json.loads(r.value or "")["op"] != "t"] or [None]))

    def _change(self, place: int, sent: dict[str, Any], whole: dict[str, Any], op: str) -> None:
        later = op == "u" and sent == whole and self.chosen.random() < 0.3
        self.send(replace(event(place, sent, op=op), headers=HEADER), later=later)
        self.rows[whole["id"]] = whole
        self.deleted.pop(whole["id"], None)

    def send(self, record: Record | None, *, later: bool = False) -> None:
        if later and record is not None:
            self.postponed.append(record)
        elif record is not None:
            self.lake.put("t", replace(record, offset=self.offset))
            self.offset += 1

    def send_postponed(self) -> None:
        for record in self.postponed:
            self.send(record)
        self.postponed.clear()

    def fold(self) -> str:
        """Why the table is left to Spark; empty: it is folded, to what its view had told."""
        committed = fold(surviving(newest_commits(self.spec.bronze_path, None) or ()))
        try:
            view = read_now(open_silver(self.spec.path), committed, "t", lambda: self.spec).reader().read_all()
        except LeftToSparkError as error:
            view, reason = None, str(error)
        [(result, left)] = fold_tables([SmallTable(self.spec, committed)])
        assert (result is None) == bool(left)
        assert view is not None or reason == left
        if view is not None and not left:
            assert sorted(map(str, view.to_pylist())) == sorted(map(str, read(self.spec.path)))
        return left

    def told(self) -> list[dict[str, Any]]:
        names = [column.name for column in COLUMNS]
        shown = [*names, DELETED] if self.spec.deletes == "soft" else names
        rows = [{**{name: row[name] for name in shown}, "d": row["d"] and row["d"].hex()} for row in read(self.spec.path)]
        return sorted(rows, key=lambda row: row["id"])

    def expected(self) -> list[dict[str, Any]]:
        rows = [{**row, "d": row["d"] and "0001"} for row in self.rows.values()]
        if self.spec.deletes == "soft":
            gone = [{**row, "d": row["d"] and "0001", DELETED: True} for row in self.deleted.values()]
            rows = [*({**row, DELETED: False} for row in rows), *gone]
        return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_the_table_ends_as_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, deletes: str) -> None:
    if seed % 2:
        monkeypatch.setattr("spark.silver.small_table_fold.MOST_ROWS", 3)
        monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    play, steps = Play(tmp_path, seed, deletes), random.Random(-seed)
    place = 0
    while place < 150:
        for _ in range(steps.choice([1, 5, 40])):
            play.act(place)
            place += 1
        if steps.random() < 0.4:
            play.send_postponed()
        play.lake.append(play.lake.all_of("t"))
        assert play.fold() == ""
        if not play.postponed:
            assert play.told() == play.expected(), place
    play.send_postponed()
    play.lake.append(play.lake.all_of("t"))
    assert play.fold() == ""
    assert play.told() == play.expected()


def test_a_part_without_its_row_is_left(tmp_path: Path) -> None:
    """In the batch and in the table: Spark's fold sets it aside."""
    whole = {"id": 1, "n": 1, "a": "x", "b": None, "c": None, "d": None, "absent": None, "offset": 1}
    part = replace(event(1, {**whole, "a": GAPS["a"]}, op="u"), headers=HEADER)
    alone, beside = Play(tmp_path / "alone", 0), Play(tmp_path / "beside", 0)
    alone.send(part)
    beside.send(event(0, {**whole, "id": 2}))
    for play in (alone, beside):
        play.lake.append(play.lake.all_of("t"))
    assert (alone.fold(), beside.fold()) == ("an event that lacks values which no event before it has", "")
    beside.send(part)
    beside.lake.append(beside.lake.all_of("t"))
    assert beside.fold() == "an event that lacks values which no event before it has"


def test_what_a_truncate_does_is_declared(tmp_path: Path) -> None:
    row = {"id": 1, "n": 1, "a": "x", "b": None, "c": None, "d": None, "absent": None, "offset": 1}
    for mode in ("apply", "ignore", "halt"):
        play = Play(tmp_path / mode, 0)
        play.spec = replace(play.spec, truncate=mode)
        for record in (event(0, row), replace(event(1, None, op="t"), key=None), event(2, {**row, "id": 2})):
            play.send(record)
            play.lake.append(play.lake.all_of("t"))
            reason = play.fold()
        assert reason.startswith("table t: the source was truncated" if mode == "halt" else "")
        assert bool(reason) == (mode == "halt")
        ids = [kept["id"] for kept in play.told()]
        assert ids == {"apply": [2], "ignore": [1, 2], "halt": [1]}[mode]
