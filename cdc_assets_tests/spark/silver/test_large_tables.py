"""Changes into a table with deletion vectors: after each commit delta-rs reads what a dictionary of rows holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.large_table import LargeTable, Row
from spark.errors import LeftToSparkError
from spark.silver import task_merge
from spark.table import delta_table
from spark.table.snapshot import read_live_table


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 1, 2, 8, *(pytest.param(seed, marks=pytest.mark.all) for seed in (3, 4, 5, 6, 7, 9, 10, 11))]
)
def test_the_table_holds_what_the_changes_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    # No file is small, some are, or all are; and checkpoints come often.
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", (0, 3000, 1 << 20)[seed % 3])
    monkeypatch.setattr(delta_table, "_EVERY", 7)
    table = LargeTable(str(tmp_path), seed)
    for number in range(15):
        table.change(late=number % 3 == 2)
        table.check()
    live = read_live_table(table.spec.path)
    assert sorted(live.files) == sorted(Path(uri).name for uri in DeltaTable(table.spec.path).file_uris())
    vectors = [file["deletionVector"] for file in live.files.values() if "deletionVector" in file]
    assert all(each["cardinality"] > 0 for each in vectors)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21, pytest.param(22, marks=pytest.mark.all)])
def test_files_with_a_changed_row_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The table gets no deletion vectors; of what a task writes itself, several files or one are written anew."""
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", (0, 3000, 1 << 20)[seed % 3])
    table = LargeTable(str(tmp_path), seed, vectors=False)
    for number in range(15):
        table.change(late=number % 3 == 2)
        table.check()
    assert read_live_table(table.spec.path).protocol["minReaderVersion"] == 1


def test_a_checkpoint_comes_as_often_as_the_table_says(tmp_path: Path) -> None:
    table = LargeTable(str(tmp_path), 3, vectors=False)
    DeltaTable(table.spec.path).alter.set_table_properties({"delta.checkpointInterval": "4"})
    for _ in range(6):
        table.change()
    found = sorted(path.name for path in Path(table.spec.path, "_delta_log").glob("*.checkpoint.parquet"))
    assert found == [f"{4:020}.checkpoint.parquet"]
    table.check()


@pytest.mark.slow
def test_more_rows_than_an_array_of_a_bitmap_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    table = LargeTable(str(tmp_path), 0, keys=("a",))
    many: list[Row] = [(n, "k", "v", f"{300_000 + n:020}", "c") for n in range(1000, 201_000)]
    table.rows |= {(row[0],): row for row in many}
    changes = task_merge.LargeTableChanges(table.as_table(many), newer=True)
    task_merge.merge_by_vectors(DeltaTable(table.spec.path), table.spec, changes, table.metadata("many"), "many")
    for gone in (range(1000, 70_000), range(70_000, 140_000, 3), range(140_000, 200_000, 29)):
        rows = [(n, "k", "v", f"{600_000 + n:020}", "d") for n in gone]
        changes = task_merge.LargeTableChanges(table.as_table(rows), newer=True)
        task_merge.merge_by_vectors(DeltaTable(table.spec.path), table.spec, changes, table.metadata(f"d{gone}"), f"d{gone}")
        table.rows = {key: row for key, row in table.rows.items() if key[0] not in gone}
        table.check()


def test_somebody_else_commits_meanwhile(tmp_path: Path) -> None:
    table = LargeTable(str(tmp_path), 1)
    older = DeltaTable(table.spec.path)
    table.change()
    changes = task_merge.LargeTableChanges(table.as_table([(1, "b", "v", "9", "c")]), newer=True)
    with pytest.raises(LeftToSparkError, match="meanwhile"):
        task_merge.merge_by_vectors(older, table.spec, changes, "{}", "other")
    table.check()
