"""Changes into a table with deletion vectors: after each commit delta-rs reads what a dictionary of rows holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.delta_reader import read
from spark.delta.first_commit import create_table
from spark.delta.live_files import read_live_table
from spark.errors import LeftToSparkError
from spark.large_tables import vector_merge
from spark.specs import Column, SilverSpec

NAMES = ("a", "b", "v", "_cdc_position", "_cdc_op")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), *((name, pa.string()) for name in NAMES[2:])])
Row = tuple[int, str, str, str, str]
Model = dict[tuple[Any, ...], Row]


class LargeTable:
    """A table that is changed at random, and what it must hold."""

    def __init__(self, path: Path, seed: int, keys: tuple[str, ...] = ()) -> None:
        self.choice, self.number, self.rows = random.Random(seed), 0, Model()
        keys = keys or self.choice.choice((("a",), ("b",), ("a", "b")))
        columns = (Column("a", "bigint"), Column("b", "text"), Column("v", "text"))
        self.spec = SilverSpec("source", "t", str(path / "bronze"), str(path / "silver"), columns, keys)
        first = [self.row("r") for _ in range(self.choice.randrange(200))]
        self.rows = {self.key(row): row for row in first}
        Path(self.spec.path).mkdir()
        create_table(self.spec.path, self.as_table(list(self.rows.values())), {}, self.metadata("first"))

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[NAMES.index(name)] for name in self.spec.keys)

    def row(self, op: str) -> Row:
        self.number += 1
        a = self.choice.randrange(300)
        return (a, f"k{a % 97}" if self.choice.random() < 0.9 else "ü", f"v{self.number}", f"{self.number:020}", op)

    def as_table(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows], schema=SCHEMA)

    def metadata(self, operation_id: str) -> str:
        return f'{{"operation_id":"{operation_id}"}}'

    def change(self, *, late: bool = False) -> None:
        """A batch of changes, one for each key; of late ones some are older than their rows."""
        found: Model = {}
        for _ in range(self.choice.choice((0, 1, 5, 60))):
            row = self.row(self.choice.choice("cuud"))
            if late and self.choice.random() < 0.5:
                row = (*row[:3], f"{self.choice.randrange(self.number):020}", row[4])
            found[self.key(row)] = row
        expected = dict(self.rows)
        for key, row in found.items():
            if key in expected and expected[key][3] >= row[3]:
                continue
            expected.pop(key, None)
            expected |= {} if row[4] == "d" else {key: row}
        name = f"op{self.number}"
        changes = vector_merge.LargeTableChanges(self.as_table(list(found.values())), newer=not late)
        version, counts = vector_merge.merge_changes(DeltaTable(self.spec.path), self.spec, changes, self.metadata(name), name)
        assert version == DeltaTable(self.spec.path).version()
        assert counts == self.counts(expected)
        self.rows = expected

    def counts(self, expected: Model) -> dict[str, int]:
        same = expected.keys() & self.rows.keys()
        updated = sum(expected[key] != self.rows[key] for key in same)
        return {"inserted": len(expected) - len(same), "updated": updated, "deleted": len(self.rows) - len(same)}

    def check(self) -> None:
        found = [tuple(row[name] for name in NAMES) for row in read(self.spec.path)]
        assert sorted(found) == sorted(self.rows.values())


@pytest.mark.parametrize("seed", range(12))
def test_the_table_holds_what_the_changes_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # No file is small, some are, or all are; and checkpoints come often.
    monkeypatch.setattr(vector_merge, "_SMALL_BYTES", (0, 3000, 1 << 20)[seed % 3])
    monkeypatch.setattr(vector_merge, "_CHECKPOINT_EVERY", 7)
    table = LargeTable(tmp_path, seed)
    for number in range(15):
        table.change(late=number % 3 == 2)
        table.check()
    live = read_live_table(table.spec.path)
    assert sorted(live.files) == sorted(Path(uri).name for uri in DeltaTable(table.spec.path).file_uris())
    vectors = [file["deletionVector"] for file in live.files.values() if "deletionVector" in file]
    assert all(each["cardinality"] > 0 for each in vectors)


def test_more_rows_than_an_array_of_a_bitmap_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_merge, "_SMALL_BYTES", 0)
    table = LargeTable(tmp_path, 0, keys=("a",))
    many: list[Row] = [(n, "k", "v", f"{300_000 + n:020}", "c") for n in range(1000, 201_000)]
    table.rows |= {(row[0],): row for row in many}
    changes = vector_merge.LargeTableChanges(table.as_table(many), newer=True)
    vector_merge.merge_changes(DeltaTable(table.spec.path), table.spec, changes, table.metadata("many"), "many")
    for gone in (range(1000, 70_000), range(70_000, 140_000, 3), range(140_000, 200_000, 29)):
        rows = [(n, "k", "v", f"{600_000 + n:020}", "d") for n in gone]
        changes = vector_merge.LargeTableChanges(table.as_table(rows), newer=True)
        vector_merge.merge_changes(DeltaTable(table.spec.path), table.spec, changes, table.metadata(f"d{gone}"), f"d{gone}")
        table.rows = {key: row for key, row in table.rows.items() if key[0] not in gone}
        table.check()


def test_somebody_else_commits_meanwhile(tmp_path: Path) -> None:
    table = LargeTable(tmp_path, 1)
    older = DeltaTable(table.spec.path)
    table.change()
    changes = vector_merge.LargeTableChanges(table.as_table([(1, "b", "v", "9", "c")]), newer=True)
    with pytest.raises(LeftToSparkError, match="meanwhile"):
        vector_merge.merge_changes(older, table.spec, changes, "{}", "other")
    table.check()
