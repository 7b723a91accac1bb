"""A table whose columns were renamed, replayed, read again and given new epochs comes back from its backup with every value.

Its bronze is copied, as a restore brings it; its columns are those that the backup holds. Oracle: the live table, and the model's
rows by the columns' numbers.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.column_history import back_up_columns, begin_silver
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import change
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.lake.replayed import ReplayedTable
from spark.errors import TableStopError
from spark.silver import fold_job as silver
from spark.silver.column_ledger import ledger_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Source.model_validate(
    {
        "source": "source",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.t"}],
    }
)
(TABLE,) = SOURCE.tables
ID = CatalogueColumn("id", "integer", False, number=1)
Row = dict[int, Any]


@dataclass
class LakeAlone:
    """What a restore needs of a platform beside the store."""

    session: SparkSession
    lake: str

    def spark(self) -> LakeAlone:
        return self

    def run(self, job: Callable[..., Any], *given: Any) -> Any:
        return job(self.session, *given)


@dataclass
class Course:
    """A table of the source, its lake and its backup. `rows` are the source's, by key, their values by the columns' numbers."""

    session: SparkSession
    root: Path
    store: ObjectStore
    columns: list[CatalogueColumn] = field(default_factory=lambda: [ID, CatalogueColumn("stock", "integer", True, number=2)])
    rows: dict[int, Row] = field(default_factory=dict)
    offset: int = 0
    number: int = 2
    restored: int = 0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = ReplayedTable(self.session, self.root / "live", has_history=False)

    @property
    def found(self) -> CatalogueTable:
        return CatalogueTable(TABLE.id, tuple(self.columns), ("id",))

    def send(self, op: str, before: Row | None, after: Row | None) -> None:
        of_event = [row and {c.name: row.get(c.number or 0) for c in self.columns} for row in (before, after)]
        key = (after or before or {})[1]
        made = change(self.offset, op, *of_event)
        self.table.lake.put("t", Record(self.offset, json.dumps({"id": key}), made.value))
        self.offset += 1

    def write(self, key: int, row: Row | None) -> None:
        """As the source's own statement: it inserts, updates, or deletes (None)."""
        before = self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = {1: key, **row}
            self.send("c" if before is None else "u", None, self.rows[key])
        elif before is not None:
            self.send("d", {1: key}, None)

    def snapshot(self) -> None:
        """Every row is read again."""
        for row in self.rows.values():
            self.send("r", None, row)

    def new_epoch(self) -> None:
        """A topic made again, which begins with every row."""
        self.take()
        lake = self.table.lake
        lake.epoch, lake.topic_id, self.offset = lake.epoch + 1, f"topic-{lake.epoch + 1}", 0
        lake.log.clear()
        self.snapshot()

    def take(self) -> None:
        """Bronze has what was sent; silver too, by a replay where an ordinary fold refuses."""
        self.append()
        try:
            self.table.fold()
        except TableStopError:
            self.replay()
            self.table.fold()

    def append(self) -> None:
        self.table.spec = silver_spec(str(self.root / "live"), SOURCE, TABLE, self.found)
        if self.table.lake.log.get("t", {}).get(0):
            self.table.lake.append(self.table.lake.all_of("t"))

    def replay(self) -> None:
        self.said.append("replay")
        self.append()
        self.table.replay()

    def restore(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The live table's rows, and those of one that comes from the backup, under the source's names."""
        back_up_columns(self.store, str(self.root / "live"), SOURCE, TABLE)
        self.restored += 1
        lake = self.root / f"restored {self.restored}"
        shutil.copytree(self.root / "live" / "bronze", lake / "bronze")
        spec = silver_spec(str(lake), SOURCE, TABLE, self.found)
        begin_silver(LakeAlone(self.session, str(lake)), self.store, SOURCE, TABLE, self.found)  # type: ignore[arg-type]
        silver.run(self.session, spec)
        return self.shown(self.table.spec.path), self.shown(spec.path)

    def shown(self, path: str) -> list[dict[str, Any]]:
        """What the lake has of each of the source's columns: the newest value of those that hold them."""
        ledger = ledger_in(DeltaTable(path).metadata().configuration)
        assert ledger is not None
        held = {column.name: ledger.holding(column.name) for column in self.columns}
        rows = sorted(values(path), key=lambda row: row["id"])
        return [{name: next((v for h in own if (v := row[h]) is not None), None) for name, own in held.items()} for row in rows]

    def of_source(self) -> list[dict[str, Any]]:
        return [{c.name: self.rows[key].get(c.number or 0) for c in self.columns} for key in sorted(self.rows)]


def test_a_renamed_column_of_a_replayed_table_comes_back(session: SparkSession, tmp_path: Path, store: ObjectStore) -> None:
    """Renamed and of another type at once, replayed as the refusal says, cut, backed up, lost, restored."""
    course = Course(session, tmp_path, store)
    for key in range(10):
        course.write(key, {2: key * 10})
    course.take()
    course.columns[1] = replace(course.columns[1], name="in_stock", type="bigint")
    course.write(3, {2: 31})
    course.write(11, {2: 110})
    course.take()
    assert course.said == ["replay"]
    live, restored = course.restore()
    assert restored == live == course.of_source()


SEEDS = 4
FREE, TYPES = "abcd", ("integer", "bigint", "text")
STEPS = ("write",) * 4 + ("rename",) * 3 + ("add", "drop", "take", "take", "replay", "snapshot", "new_epoch", "restore")


def step(course: Course, chance: random.Random) -> None:
    """One thing that happens to the table."""
    what = chance.choice(STEPS)
    course.said.append(what)
    free = [name for name in FREE if name not in {c.name for c in course.columns}]
    at = chance.randrange(1, len(course.columns)) if len(course.columns) > 1 else 0
    if what == "write":
        for key in chance.sample(range(8), 3):
            row = {c.number or 0: _value(c, chance) for c in course.columns[1:]}
            course.write(key, chance.choice((None, row, row, row)))
    elif what == "rename" and at and free:
        course.columns[at] = replace(course.columns[at], name=chance.choice(free))
    elif what == "add" and free:
        course.number += 1
        course.columns.append(CatalogueColumn(chance.choice(free), chance.choice(TYPES), True, number=course.number))
    elif what == "drop" and at:
        course.columns.pop(at)
    elif what in ("take", "replay", "snapshot", "new_epoch"):
        getattr(course, what)()
    elif what == "restore":
        course.take()
        compare(course)


def compare(course: Course) -> None:
    live, restored = course.restore()
    assert restored == live, course.said
    assert [texts(row) for row in live] == [texts(row) for row in course.of_source()], course.said


def texts(row: dict[str, Any]) -> dict[str, str]:
    """A number that was read before its column became text is the same value."""
    return {name: str(value) for name, value in row.items()}


def _value(column: CatalogueColumn, chance: random.Random) -> Any:
    number = chance.randrange(1000)
    return f"text {number}" if column.type == "text" else number


@pytest.mark.all
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_comes_back(session: SparkSession, tmp_path: Path, store: ObjectStore, seed: int) -> None:
    """Renames, replays, snapshots, new epochs and restores in any order, compared by value at each cut."""
    course, chance = Course(session, tmp_path, store), random.Random(seed)
    course.write(1, {2: 10})
    course.take()
    for _ in range(12):
        step(course, chance)
    course.take()
    compare(course)
