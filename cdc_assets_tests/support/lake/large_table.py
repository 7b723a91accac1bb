"""A table that tasks change at random, and a dictionary of the rows that it must hold."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from cdc_assets_tests.support.lake.delta_reader import read
from spark.silver import task_merge
from spark.specs import Column, SilverSpec
from spark.table.commit_writer import create_table
from spark.table.delta_rs import open_delta
from spark.table.table_folder import open_folder

NAMES = ("a", "b", "v", "_cdc_position", "_cdc_op")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), *((name, pa.string()) for name in NAMES[2:])])
Row = tuple[int, str, str, str, str]
Model = dict[tuple[Any, ...], Row]


class LargeTable:
    """A table that is changed at random, and what it must hold."""

    def __init__(self, root: str, seed: int, keys: tuple[str, ...] = (), *, vectors: bool = True) -> None:
        self.choice, self.number, self.rows = random.Random(seed), 0, Model()
        keys = keys or self.choice.choice((("a",), ("b",), ("a", "b")))
        columns = (Column("a", "bigint"), Column("b", "text"), Column("v", "text"))
        self.spec = SilverSpec("source", "t", f"{root}/bronze", f"{root}/silver", columns, keys)
        first = [self.row("r") for _ in range(self.choice.randrange(200))]
        self.rows = {self.key(row): row for row in first}
        self.vectors = vectors
        open_folder(self.spec.path).make()
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
        changes = task_merge.LargeTableChanges(self.as_table(list(found.values())), newer=not late, vectors=self.vectors)
        table = open_delta(self.spec.path)
        version, counts = task_merge.merge_by_vectors(table, self.spec, changes, self.metadata(name), name)
        assert version == open_delta(self.spec.path).version()
        assert counts == self.counts(expected)
        self.rows = expected

    def counts(self, expected: Model) -> dict[str, int]:
        same = expected.keys() & self.rows.keys()
        updated = sum(expected[key] != self.rows[key] for key in same)
        return {"inserted": len(expected) - len(same), "updated": updated, "deleted": len(self.rows) - len(same)}

    def check(self) -> None:
        found = [tuple(row[name] for name in NAMES) for row in read(self.spec.path)]
        assert sorted(found) == sorted(self.rows.values())
