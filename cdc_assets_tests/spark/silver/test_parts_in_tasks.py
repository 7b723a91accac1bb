"""Events that hold a part of their row, folded as a task does it and in this process, without a JVM: completed from the batch and
from the table's files, whatever the cuts."""

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
from cdc_assets_tests.support.lake.steps import Steps
from spark.record_formats import UNCHANGED_HEADER
from spark.silver import task_merge
from spark.silver.small_table_fold import SmallTable, fold_tables
from spark.specs import Column, SilverSpec
from spark.table.commit_metadata import fold, surviving
from spark.table.log_reader import newest_commits

COLUMNS = (
    Column("id", "integer", False),
    Column("n", "integer"),
    Column("a", "text"),
    Column("b", "text[]"),
    Column("c", "integer[]"),
    Column("d", "bytea"),
)
OWN = "a marker of this table"
HEADER = {UNCHANGED_HEADER: OWN}
GAPS: dict[str, Any] = {"a": OWN, "b": [OWN], "c": [*OWN.encode()], "d": "YSBtYXJrZXIgb2YgdGhpcyB0YWJsZQ=="}


class Play:
    """A table, and its rows as they are at the source."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.lake = Lake(None, root, not_compared="no Spark")  # type: ignore[arg-type]
        self.spec = self.lake.spec("t", COLUMNS)
        self.rows: dict[int, dict[str, Any]] = {}

    def act(self, offset: int) -> None:
        key = self.chosen.randrange(12)
        row = {"id": key, "n": offset, "a": self.chosen.choice(["x", GAP[:3], None]), "b": self.chosen.choice([["p"], [], None])}
        row |= {"c": self.chosen.choice([[1, 2], None]), "d": self.chosen.choice(["AAE=", None])}
        before = self.rows.get(key)
        if before is None:
            self._send(offset, row, row, "c")
        elif self.chosen.random() < 0.2:
            self.lake.put("t", Record(offset, f'{{"id": {key}}}', event(offset, None, op="d").value))
            del self.rows[key]
        else:
            kept = [name for name in GAPS if self.chosen.random() < 0.5]
            whole = {**row, **{name: before[name] for name in kept}}
            self._send(offset, {**row, **{name: GAPS[name] for name in kept}}, whole, "u")

    def _send(self, offset: int, sent: dict[str, Any], whole: dict[str, Any], op: str) -> None:
        self.lake.put("t", replace(event(offset, sent, op=op), headers=HEADER))
        self.rows[whole["id"]] = whole

    def told(self) -> list[dict[str, Any]]:
        names = [column.name for column in COLUMNS]
        rows = [{**{name: row[name] for name in names}, "d": row["d"] and row["d"].hex()} for row in read(self.spec.path)]
        return sorted(rows, key=lambda row: row["id"])

    def expected(self) -> list[dict[str, Any]]:
        rows = [{**row, "d": row["d"] and "0001"} for row in self.rows.values()]
        return sorted(rows, key=lambda row: row["id"])


def folded(spec: SilverSpec) -> str:
    """Why the table is left to Spark; empty: it is folded."""
    committed = fold(surviving(newest_commits(spec.bronze_path, None) or ()))
    [(result, left)] = fold_tables([SmallTable(spec, committed)])
    assert (result is None) == bool(left)
    return left


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by_vectors", [False, True])
def test_parts_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, *, by_vectors: bool) -> None:
    if by_vectors:
        monkeypatch.setattr("spark.silver.small_table_fold.MOST_ROWS", 3)
        monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    play, steps = Play(tmp_path, seed), random.Random(-seed)
    end = 0
    while end < 120:
        for offset in range(end, end + steps.choice([1, 5, 40])):
            play.act(offset)
            end = offset + 1
        play.lake.append(play.lake.all_of("t"))
        assert folded(play.spec) == ""
        assert play.told() == play.expected(), end


def test_a_part_without_its_row_is_left(tmp_path: Path) -> None:
    """In the batch and in the table: Spark's fold sets it aside."""
    play = Play(tmp_path, 0)
    part = replace(event(0, {"id": 1, "n": 1, "a": GAPS["a"], "b": None, "c": None, "d": None}, op="u"), headers=HEADER)
    play.lake.put("t", part)
    play.lake.append(play.lake.all_of("t"))
    assert folded(play.spec) == "an event that lacks values which no event before it has"
    whole = event(1, {"id": 2, "n": 1, "a": "x", "b": None, "c": None, "d": None}, op="c")
    play.lake.log["t"][0] = [replace(whole, offset=0)]
    play.lake = replace(play.lake, root=tmp_path / "other", steps=Steps())
    play.spec = play.lake.spec("t", COLUMNS)
    play.lake.append(play.lake.all_of("t"))
    assert folded(play.spec) == ""
    play.lake.put("t", replace(part, offset=1, value=event(1, json.loads(part.value or "")["after"], op="u").value))
    play.lake.append(play.lake.all_of("t"))
    assert folded(play.spec) == "an event that lacks values of a row which the table does not have"
