"""A table with deletion vectors is written by tasks and by Spark in turns, and read by Spark and by delta-rs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.events import change
from cdc_assets_tests.support.lake.lake import Lake
from spark.silver import fold_job as silver
from spark.silver import small_tables
from spark.silver.schema_evolution import set_properties
from spark.silver.small_tables import SmallTablesSpec
from spark.specs import Column, SilverSpec
from spark.table.data_files import PROPERTY
from spark.table.delta_table import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column("v", "text"))


class Writer:
    """Random rows, and their events."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.random, self.offset = lake, random.Random(seed), 0
        self.rows: dict[int, str] = {}

    def append(self, count: int) -> None:
        for _ in range(count):
            key = self.random.randrange(40)
            op = "c" if key not in self.rows else self.random.choice("uud")
            row = {"id": key, "v": f"v{self.offset}"}
            record = change(self.offset, op, None, None if op == "d" else row)
            record.key = json.dumps({"id": key})
            self.lake.put("t", record)
            self.offset += 1
            self.rows.pop(key, None)
            self.rows |= {} if op == "d" else {key: row["v"]}
        self.lake.append(self.lake.all_of("t"))


def fold(session: SparkSession, spec: SilverSpec, *, by_task: bool) -> None:
    if by_task:
        [outcome] = small_tables.run(session, SmallTablesSpec((spec,)))
        assert outcome.result is not None, outcome.left
        assert outcome.result.version is not None
    else:
        assert silver.run(session, spec).version is not None


@pytest.mark.all
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.all)])
def test_both_write_one_table(session: SparkSession, tmp_path: Path, seed: int) -> None:
    writer = Writer(Lake(session, tmp_path), seed)
    spec = writer.lake.spec("t", COLUMNS, ("id",))
    writer.append(60)
    fold(session, spec, by_task=True)
    set_properties(session, spec.path, {PROPERTY: "true"})
    if seed:
        # Spark takes over a checkpoint, with vectors, that delta-rs has made.
        set_properties(session, spec.path, {"delta.checkpointInterval": "1000"})
    for number in range(8):
        writer.append(writer.random.randrange(1, 12))
        fold(session, spec, by_task=number % 4 != 3)
        if seed and number == 4:
            DeltaTable(spec.path).create_checkpoint()
        expected = sorted(writer.rows.items())
        assert sorted((row["id"], row["v"]) for row in read(spec.path)) == expected
        assert sorted(tuple(row)[:2] for row in session.read.format("delta").load(spec.path).collect()) == expected
    assert [*Path(spec.path).glob("deletion_vector_*.bin")]
    # Each file tells the bounds of the same columns, by which PyArrow's filters skip files (spark.table.data_files).
    told = [json.loads(file["stats"]) for file in table_of(spec.path).snapshot().files.values()]
    assert {tuple(sorted(stats.get("minValues", ()))) for stats in told} == {("_cdc_position", "id")}


@pytest.mark.all
def test_a_table_that_has_become_large_gets_vectors(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, so that few rows are many."""
    from spark.silver import small_table_fold, task_merge
    from spark.table.commit_metadata import fold as fold_commits
    from spark.table.commit_metadata import surviving
    from spark.table.delta_table import table_of

    monkeypatch.setattr(small_table_fold, "MOST_BYTES", 1)
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    writer = Writer(Lake(session, tmp_path), 5)
    spec = writer.lake.spec("t", COLUMNS, ("id",))
    for _ in range(3):
        writer.append(30)
        committed = fold_commits(surviving(table_of(spec.bronze_path).commits(400) or []))
        [(result, left)] = small_table_fold.fold_tables([small_table_fold.SmallTable(spec, committed)])
        assert result is not None, left
    assert "deletionVectors" in (DeltaTable(spec.path).protocol().writer_features or ())
    assert [*Path(spec.path).glob("deletion_vector_*.bin")]
    expected = sorted(writer.rows.items())
    assert sorted(tuple(row)[:2] for row in session.read.format("delta").load(spec.path).collect()) == expected
    writer.append(5)
    fold(session, spec, by_task=False)
    assert sorted((row["id"], row["v"]) for row in read(spec.path)) == sorted(writer.rows.items())
