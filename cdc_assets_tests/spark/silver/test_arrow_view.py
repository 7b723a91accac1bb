"""A table read as it is now: what the next fold makes of it, whatever is folded, merged or changed meanwhile."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.events import change, event
from cdc_assets_tests.support.lake.lake import Lake, rows
from spark.errors import LeftToSparkError
from spark.silver import fold_job as silver
from spark.silver.arrow_view import TableNow, open_silver, read_now
from spark.specs import Column, SilverSpec
from spark.table.commit_metadata import Committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    *(Column("a", "integer", False), Column("b", "text", False), Column("v", "text"), Column("n", "numeric(20,3)")),
    *(Column("at", "timestamp with time zone"), Column("tags", "text[]")),
)
KEYS = ("a", "b")


def view(spec: SilverSpec) -> TableNow:
    return read_now(open_silver(spec.path), committed(spec.bronze_path), spec.table, lambda: spec)


def ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: (row["a"], row["b"]))


def shown(spec: SilverSpec) -> list[dict[str, Any]]:
    return ordered(view(spec).reader().read_all().to_pylist())


class Writer:
    """Random rows of two key columns, and their events."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.random, self.offset = lake, random.Random(seed), 0
        self.rows: dict[tuple[int, str], dict[str, Any]] = {}

    def write(self) -> None:
        key = (self.random.randrange(6), self.random.choice("xy"))
        op = "c" if key not in self.rows else self.random.choice("uud")
        row = {"a": key[0], "b": key[1], "v": self.random.choice([None, "", f"v{self.offset}"]), "n": f"{self.offset}.125"}
        row |= {"at": f"2026-01-01T00:00:{self.offset % 60:02}.5Z", "tags": self.random.choice([None, [], ["p", None]])}
        record = change(self.offset, op, None, None if op == "d" else row)
        record.key = json.dumps({"a": key[0], "b": key[1]})
        self.lake.put("t", record)
        self.offset += 1
        self.rows.pop(key, None)
        if op != "d":
            self.rows[key] = row

    def append(self, count: int) -> None:
        for _ in range(count):
            self.write()
        self.lake.append(self.lake.all_of("t"))


def test_the_view_is_what_the_next_fold_makes(session: SparkSession, tmp_path: Path) -> None:
    """The oracle is Spark's fold of the same bronze into another table, and the rows that were written."""
    writer = Writer(Lake(session, tmp_path), 1)
    spec = writer.lake.spec("t", COLUMNS, KEYS)
    other = replace(spec, path=f"{spec.path}_other", quarantine_path=f"{spec.path}_q")
    for step in range(3):
        writer.append(writer.random.randrange(1, 12))
        version = DeltaTable(spec.path).version() if step else None
        found = shown(spec)
        assert (DeltaTable(spec.path).version() if step else None) == version, "nothing is written by looking"
        silver.run(session, other)
        assert found == ordered(rows(other.path))
        assert [(r["a"], r["b"], r["v"], str(r["n"]), r["tags"]) for r in found] == [
            (a, b, r["v"], r["n"], r["tags"]) for (a, b), r in sorted(writer.rows.items())
        ]
        if step == 0 or writer.random.random() < 0.4:
            writer.lake.fold(spec)
            assert shown(spec) == found
            assert view(spec).changes is None


def test_a_merge_during_the_read_changes_nothing(session: SparkSession, tmp_path: Path) -> None:
    writer = Writer(Lake(session, tmp_path), 7)
    spec = writer.lake.spec("t", COLUMNS, KEYS)
    writer.append(8)
    writer.lake.fold(spec)
    writer.append(8)
    found, expected = view(spec), shown(spec)
    writer.lake.fold(spec)
    writer.append(8)
    writer.lake.fold(spec)
    assert ordered(found.reader().read_all().to_pylist()) == expected
    assert (found.silver.number, shown(spec) == expected) == (0, False)
    assert found.reader(["v", "a"]).read_all().column_names == ["v", "a"]


def test_deletion_vectors_are_read(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark.silver.silver_table.DELETION_VECTORS_FROM", 1)
    monkeypatch.setattr("spark.silver.small_table_fold.MOST_BYTES", 1)
    writer = Writer(Lake(session, tmp_path), 3)
    spec = writer.lake.spec("t", COLUMNS, KEYS)
    for _ in range(2):
        writer.append(20)
        silver.run(session, spec)
    assert [*Path(spec.path).glob("deletion_vector_*.bin")]
    writer.append(10)
    assert [(r["a"], r["b"], r["v"]) for r in shown(spec)] == [(a, b, r["v"]) for (a, b), r in sorted(writer.rows.items())]


def test_what_only_spark_folds_is_an_error(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    with pytest.raises(LeftToSparkError, match="neither a table nor an event"):
        read_now(open_silver(spec.path), Committed(-1, {}), "t", lambda: spec)
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    lake.put("t", event(1, None, op="t"))
    lake.append(lake.all_of("t"))
    assert view(spec).reader().read_all().num_rows == 0
    with pytest.raises(LeftToSparkError, match="the source's columns have changed"):
        view(replace(spec, columns=(*spec.columns, Column("more", "text"))))
    silver.run(session, spec)
    assert view(spec).reader().read_all().num_rows == 0
    lake.put("t", event(2, {"id": 2, "v": "b"}))
    lake.put("t", event(3, {"id": 3, "v": "b"}, source={"lsn": 1, "sequence": '["1", "1"]', "txId": 1}))
    lake.append(lake.all_of("t"))
    assert sorted(view(spec).reader(["id"]).read_all()["id"].to_pylist()) == [2]
    with pytest.raises(LeftToSparkError, match="rows below a TRUNCATE stay"):
        view(replace(spec, truncate="soft"))
