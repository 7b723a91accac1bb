"""Tables without a key as multisets: deletes and updates take exactly one of equal rows, wherever and whenever they come.

`--all` tries more random histories.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.events import Row, change
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.lake.multisets import COLUMNS, Source, decode_mended, held, multiset
from spark.silver import quarantine_table
from spark.silver.quarantine_redrive import Choice, redrive
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A seed, and the share of events that may be a TRUNCATE: one in seven of those is, and mostly comes behind later ones.
SEEDS = [
    *((seed, 0.1) for seed in range(1, 7)),
    *((seed, 0.5) for seed in range(1, 16)),
]
EVENTS = 60


@pytest.mark.all
@pytest.mark.parametrize(("seed", "truncates"), SEEDS)
def test_any_history_in_any_cut_over_partitions(session: SparkSession, tmp_path: Path, seed: int, truncates: float) -> None:
    source, lake, ends = Source(seed, truncates), Lake(session, tmp_path), {0: 0, 1: 0, 2: 0}
    for _ in range(EVENTS):
        source.act()
    for record in source.records:
        lake.put("t", record, partition=source.random.randrange(3))
    spec = multiset(lake)
    while any(end < EVENTS for end in ends.values()):
        # Any partition may be ahead: deletes come before the rows that they take.
        ends[source.random.choice([p for p, end in ends.items() if end < EVENTS])] += source.random.choice([25, 60])
        lake.append(lake.ranges("t", {p: min(end, EVENTS) for p, end in ends.items()}))
        lake.fold(spec)
    assert held(spec) == source.held
    # Of some histories no event had to wait.
    aside = rows(spec.quarantine) if Path(spec.quarantine).exists() else []
    assert not [r for r in aside if not (r["redriven_at"] or r["superseded_by"])]


@pytest.mark.all
def test_deletes_of_rows_of_many_columns(session: SparkSession, tmp_path: Path) -> None:
    """Spark Connect reads expressions of up to 100 levels: equality of sixty columns must not be a chain."""
    wide = [f"c{number}" for number in range(60)]
    row, other = dict.fromkeys(wide, "x"), {**dict.fromkeys(wide, "x"), "c59": None}
    lake = Lake(session, tmp_path)
    lake.put("t", *(change(offset, "c", None, made) for offset, made in enumerate((row, row, other))))
    lake.put("t", change(3, "d", row, None), change(4, "u", other, row))
    lake.append(lake.all_of("t"))
    spec = replace(multiset(lake), columns=tuple(Column(name, "text") for name in wide))
    lake.fold(spec)
    assert held(spec) == Counter({json.dumps(row): 2})


@pytest.mark.all
def test_deletes_of_rows_that_are_older_than_a_drop(session: SparkSession, tmp_path: Path) -> None:
    """A column goes, another one of another type comes under its name, and a third one goes for good."""
    lake = Lake(session, tmp_path)
    a, v, x = (replace(column, number=i) for i, column in enumerate(COLUMNS, 1))
    was, now = multiset(lake), [{"a": i, "v": "old", "x": float(i)} for i in range(4)]
    lake.put("t", *(change(i, "c", None, row) for i, row in enumerate(now)))
    lake.append(lake.all_of("t"))
    lake.fold(replace(was, columns=(a, v, x)))
    spec = replace(was, columns=(a, Column("x", "text", number=4)))
    lake.put("t", change(4, "u", {"a": 1, "x": None}, {"a": 1, "x": "new"}), change(5, "d", {"a": 2, "x": None}, None))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert not quarantine_table.exists(session, spec)
    assert sorted((row["a"], row["x__string"]) for row in values(spec.path)) == [(0, None), (1, "new"), (3, None)]


@pytest.mark.all
def test_deletes_of_rows_that_are_older_than_a_change_of_type(session: SparkSession, tmp_path: Path) -> None:
    """Twice, and back to the first type; where an older value is none of the new type, the row is not found, and that is told."""
    lake = Lake(session, tmp_path)
    was = multiset(lake)
    a, v, x = (replace(column, number=i) for i, column in enumerate(COLUMNS, 1))
    spec, at = replace(was, columns=(a, v, x)), 0

    def play(*changes: tuple[str, Row | None, Row | None]) -> list[tuple[Any, ...]]:
        nonlocal at
        lake.put("t", *(change(at + i, *each) for i, each in enumerate(changes)))
        at += len(changes)
        lake.append(lake.all_of("t"))
        lake.fold(spec)
        return sorted((tuple(row.get(f"a{kind}") for kind in ("", "__string", "__int")) for row in values(spec.path)), key=repr)

    def row(a: Any, v: str = "old") -> Row:
        return {"a": a, "v": v, "x": 0.5}

    play(*(("c", None, row(i)) for i in (1, 2, 2, 3, None)))
    spec = replace(spec, columns=(replace(a, source_type="text"), v, x))
    found = play(("d", row("2"), None), ("u", row("1"), row("1", "new")), ("d", row(None), None), ("c", None, row("x")))
    assert found == [(2, None, None), (3, None, None), (None, "1", None), (None, "x", None)]
    assert not quarantine_table.exists(session, spec)
    spec = replace(spec, columns=(a, v, x))
    found = play(("d", row(1, "new"), None), ("d", row(2), None), ("u", row(3), row(4)), ("d", row(5), None))
    assert found == [(None, "x", None), (None, None, 4)]
    (waiting,) = quarantine_table.table(session, spec).collect()
    assert (waiting["offset"], waiting["error_class"]) == (12, "no_row")


@pytest.mark.all
def test_deletes_of_rows_that_are_decoded_in_many_steps(session: SparkSession, tmp_path: Path) -> None:
    """A plan is deeper the more its columns' values must be worked on; Spark Connect sends plans of up to 100 levels."""
    kinds = ("timestamp without time zone[]", "time without time zone[]", "polygon", "bytea[]", "double precision")
    columns = (COLUMNS[0], *(Column(f"c{number}", kind, accepted=True) for number, kind in enumerate(kinds)))
    row: Row = {"a": 1, **{column.name: None for column in columns[1:]}}
    lake = Lake(session, tmp_path)
    lake.put("t", change(0, "c", None, row), change(1, "c", None, row))
    spec = replace(multiset(lake), columns=columns)
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    lake.put("t", change(2, "d", row, None), change(3, "u", row, {**row, "a": 2}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert held(spec) == Counter({json.dumps({**row, "a": 2}): 1})


def test_a_kill_between_quarantine_and_silver_pays_once(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"a": 1, "v": "x", "x": 0.5}
    lake = Lake(session, tmp_path)
    lake.put("t", change(0, "c", None, row), partition=0)
    lake.put("t", change(1, "d", row, None), change(2, "d", row, None), partition=1)
    spec = multiset(lake)
    lake.append(lake.ranges("t", {1: 3}))
    lake.fold(spec)
    assert values(spec.path) == []
    lake.put("t", change(3, "c", None, row), change(4, "c", None, row), change(5, "c", None, {**row, "a": 2}))
    lake.append(lake.all_of("t"))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr("spark.silver.keyless_tables.write_rows", killed)
            patch.setattr("spark.silver.keyless_tables._replace", killed)
            with pytest.raises(KeyboardInterrupt):
                lake.fold(spec)
    lake.fold(spec)
    assert held(spec) == Counter(json.dumps(r) for r in (row, {**row, "a": 2}))
    assert all(r["redriven_at"] for r in rows(spec.quarantine))


@pytest.mark.all
def test_an_unfit_half_holds_the_whole_record_until_it_is_redriven(session: SparkSession, tmp_path: Path) -> None:
    row, bad = {"a": 1, "v": "x", "x": 0.5}, {"a": "one", "v": "x", "x": 0.5}
    lake = Lake(session, tmp_path)
    lake.put("t", change(0, "c", None, row), change(1, "u", row, bad), change(2, "d", {**row, "a": 9}, None))
    lake.put("t", change(3, "u", None, row))
    lake.append(lake.all_of("t"))
    spec = multiset(lake)
    lake.fold(spec)
    assert values(spec.path) == [row]
    said = {r["offset"]: r["error_class"] for r in rows(spec.quarantine)}
    assert said == {1: "value", 2: "no_row", 3: "envelope"}
    assert redrive(session, spec, Choice()).redriven == 0
    # As if a fix had made it readable.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark.silver.keyed_batch.decode_changes", decode_mended)
        assert redrive(session, spec, Choice(offset=1)).redriven == 1
    assert values(spec.path) == [{**row, "a": None}]
    assert quarantine_table.table(session, spec).where(quarantine_table.OPEN).count() == 2
