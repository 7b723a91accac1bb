"""Topics of parts of rows: what an event does not say stays as it was, in silver and the history, however it is cut."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.oracles.proven import proven
from spark.silver import history_job as history
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column("a", "text"), Column("b", "integer"), Column("said", "text[]"))
Row = dict[str, Any]


def sent(chosen: random.Random) -> list[tuple[int, Row | None]]:
    found: list[tuple[int, Row | None]] = []
    for _ in range(60):
        key, row = chosen.randrange(5), None
        if chosen.random() > 0.15:
            said = chosen.choice([None, ["a"], ["b"], ["a", "b"], []])
            row = {"id": key, "a": chosen.choice(["x", "y", None]), "b": chosen.choice([1, 2, None]), "said": said}
        found.append((key, row))
    return found


def applied(events: list[tuple[int, Row | None]], *, nulls: tuple[str, ...], listed: bool) -> list[list[Row | None]]:
    """Per key, what its row was after each event about it: one rule after the other, as a reader of the topic would do it."""
    states: list[list[Row | None]] = [[None] for _ in range(5)]
    for key, row in events:
        before = states[key][-1]
        if row is None:
            states[key].append(None)
            continue
        after = dict(row)
        for name in ("a", "b"):
            untold = (listed and row["said"] is not None and name not in row["said"]) or (name in nulls and row[name] is None)
            if untold:
                after[name] = before[name] if before else None
        states[key].append(after)
    return states


def shown(row: Row) -> Row:
    return {k: v for k, v in row.items() if not k.startswith("_")}


@pytest.mark.all
@pytest.mark.parametrize(("nulls", "listed"), [(("a", "b"), True)])
def test_as_one_rule_after_the_other(session: SparkSession, tmp_path: Path, nulls: tuple[str, ...], listed: bool) -> None:
    chosen = random.Random(4)
    events = sent(chosen)
    lake = Lake(session, tmp_path, form=("json", "topic"))
    lake.put(
        "t", *[Record(i, f'{{"id": {key}}}', None if row is None else json.dumps(row)) for i, (key, row) in enumerate(events)]
    )
    hard = replace(lake.spec("t", COLUMNS), ignore_null_updates=nulls, columns_to_update="said" if listed else "")
    soft = replace(hard, path=str(tmp_path / "soft"), deletes="soft")
    versions = replace(hard, path=str(tmp_path / "history"))
    # Rarely more than an event or two of a key in a batch, and once many.
    for end in (7, 9, 45, 60):
        lake.append(lake.ranges("t", {0: end}))
        for spec in (hard, soft) if end != 9 else (hard,):
            lake.fold(spec)
        history.run(session, versions)
    expected = applied(events, nulls=nulls, listed=listed)
    assert {r["id"]: shown(r) for r in rows(hard.path)} == {k: s[-1] for k, s in enumerate(expected) if s[-1]}
    there = {r["id"]: shown(r) for r in rows(soft.path)}
    last = {k: next(row for row in reversed(s) if row) for k, s in enumerate(expected) if any(s)}
    assert there == last
    assert {r["id"] for r in rows(soft.path) if r["_cdc_deleted"]} == {k for k, s in enumerate(expected) if s[-1] is None}
    proven(session, versions, hard)
    made = sorted(rows(versions.path), key=lambda r: r["_valid_from"])
    for key, states in enumerate(expected):
        told = [row for before, row in pairwise(states) if row is not None and row != before]
        assert [shown(r) for r in made if r["id"] == key] == told


def test_as_a_spec(tmp_path: Path) -> None:
    from spark.errors import JobRefusedError
    from spark.specs import SilverSpec

    spec = SilverSpec("s", "t", "b", "p", COLUMNS, ("id",), ignore_null_updates=("a",), columns_to_update="said")
    assert SilverSpec.from_json(spec.to_json()) == spec
    with pytest.raises(JobRefusedError, match=r"columns of parts \['z'\]"):
        replace(spec, ignore_null_updates=("z",))
