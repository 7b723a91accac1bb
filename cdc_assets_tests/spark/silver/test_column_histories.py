"""Columns that are renamed, dropped, added again and change their types, in any order between two looks of silver.

Each row of the source keeps a value for each column's number. What silver shows for it must be that value, or the table stops.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.events import change
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.errors import TableStopError
from spark.silver.schema_difference import is_of_source, plan
from spark.specs import Column, SilverSpec
from spark.values.missing_values import missing_leaf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = "abcd"
KINDS = ("integer", "text", "text")
SEEDS = 300
Row = dict[Any, str | None]


@dataclass
class Model:
    """A source's columns by their numbers, silver's by the plans, and each row on both sides.

    Without numbers in the catalogue a rename is a drop and an add, and what happens to one name between two looks is not told.
    """

    random: random.Random
    numbered: bool
    columns: list[Column] = field(default_factory=list)
    known: list[Column] = field(default_factory=list)
    rows: list[tuple[Row, Row]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    number: int = 0
    gone: set[str] = field(default_factory=set)

    def add(self, name: str) -> None:
        self.number += 1
        default = self.random.choice((None, "7")) if self.numbered else None
        self.columns.append(Column(name, self.random.choice(KINDS), number=self.number, missing=default))
        for row, _ in self.rows:
            row[self.number] = default

    def alter(self) -> None:
        """One statement; what rewrites the table makes the catalogue forget what older rows have."""
        at, other = self.random.randrange(len(self.columns)), self.random.randrange(len(self.columns))
        free, column = [n for n in NAMES if n not in {*self.gone, *(c.name for c in self.columns)}], self.columns[at]
        what = self.random.choice(("drop", "add", "add", "type", *(("rename", "rename", "swap") if self.numbered else ())))
        if what == "rename" and free:
            self.columns[at] = replace(column, name=self.random.choice(free))
        elif what == "swap":
            was, now = column.name, self.columns[other].name
            self.columns[at], self.columns[other] = replace(column, name=now), replace(self.columns[other], name=was)
        elif what == "drop" and len(self.columns) > 1:
            self.columns.remove(column)
            self.gone |= set() if self.numbered else {column.name}
        elif what == "add" and free:
            self.add(self.random.choice(free))
        elif what == "type":
            kind = "text" if column.source_type == "integer" else "integer"
            self.columns = [replace(c, missing=None) for c in self.columns]
            self.columns[at] = replace(self.columns[at], source_type=kind)
        self.said.append(f"{what} {column.name}: {', '.join(f'{c.number} {c.name} {c.source_type}' for c in self.columns)}")

    def insert(self) -> None:
        """An event fills the newest column of each field."""
        row: Row = {c.number: f"{len(self.rows)} of {c.number}" for c in self.columns}
        self.rows.append((row, {holding(self.known, c.name)[0].name: row[c.number] for c in self.columns}))

    def look(self, number: int) -> None:
        columns = tuple(self.columns if self.numbered else (replace(c, number=None) for c in self.columns))
        wanted = plan(self.known, SilverSpec("s", "t", "b", "p", columns), after=f"p{number}")
        self.gone.clear()
        taking = {new.name: [old.name for old in olds] for new, olds in wanted.renamed}
        for _, row in self.rows:
            old = dict(row)
            row.update({c.name: None for c in wanted.emptied})
            row.update({c.name: missing_leaf(c) for c in (*wanted.added, *wanted.emptied) if missing_leaf(c) is not None})
            row.update({new: first(old, olds) for new, olds in taking.items()})
        self.known = wanted.columns

    def differences(self) -> list[tuple[str, str | None, str | None]]:
        return [
            (c.name, wanted[c.number], shown)
            for wanted, row in self.rows
            for c in self.columns
            # A default that the catalogue has forgotten before silver looked is told by the check `schema`.
            if (shown := first(row, [h.name for h in holding(self.known, c.name)])) != wanted[c.number]
            and (shown, wanted[c.number]) != (None, "7")
        ]


def holding(columns: Sequence[Column], name: str) -> list[Column]:
    found = [c for c in columns if c.event_field == name and is_of_source(c, columns)]
    return sorted(found, key=lambda c: c.since, reverse=True)


def first(row: Row, names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := row.get(name)) is not None), None)


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("numbered", [True, False])
def test_values_follow_their_columns_through_any_history(numbered: bool) -> None:
    ended = 0
    for seed in range(SEEDS):
        model = Model(random.Random(seed), numbered)
        for name in model.random.sample(NAMES, 3):
            model.add(name)
        model.known = [c if numbered else replace(c, number=None) for c in model.columns]
        try:
            for number in range(5):
                model.insert()
                for _ in range(model.random.randint(1, 2)):
                    model.alter()
                model.look(number)
                assert not (found := model.differences()), (seed, found, model.said, model.known)
        except TableStopError:
            continue
        ended += 1
    assert ended > SEEDS / 5


@pytest.mark.all
def test_a_rename_after_a_change_of_type_takes_all_values_along(session: SparkSession, tmp_path: Path) -> None:
    """Rows from before the change of type had NULL in the renamed column; a new column of the old name had their values."""
    lake = Lake(session, tmp_path)
    key, d = Column("id", "integer", number=1), Column("d", "integer", number=2)
    spec = replace(lake.spec("t", (key, d), keys=()), without_key="multiset")
    for at, (columns, row) in enumerate(
        (
            ((key, d), {"id": 1, "d": 11}),
            ((key, replace(d, source_type="text")), {"id": 2, "d": "two"}),
            ((key, replace(d, name="b", source_type="text")), {"id": 3, "b": "three"}),
            ((key, replace(d, name="b", source_type="text"), Column("d", "text", number=3)), {"id": 4, "b": "four", "d": "own"}),
        )
    ):
        lake.put("t", change(at, "c", None, row))
        lake.append(lake.all_of("t"))
        lake.fold(replace(spec, columns=columns))
    found = sorted((row["id"], row["b"], row["d__string"]) for row in values(spec.path))
    assert found == [(1, "11", None), (2, "two", None), (3, "three", None), (4, "four", "own")]
