"""Delta tables are read through PyArrow in one place, which gives it a file system that needs no interpreter."""

from __future__ import annotations

import ast
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.clients.delta_rows import open_dataset

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["plain", "with a space", "ünï", "c=1"])
def test_a_dataset_is_read_by_pyarrow_itself(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for rows in ([1, 2], [3]):
        write_deltalake(
            tmp_path / name, pa.table({"id": rows, "day é%": ["a/b c%25"] * len(rows)}), mode="append", partition_by="day é%"
        )
    for path in (str(tmp_path / name), name):
        dataset = open_dataset(DeltaTable(tmp_path / name), path)
        assert sorted(dataset.to_table(columns=["id"])["id"].to_pylist()) == [1, 2, 3]
        assert not isinstance(dataset.filesystem, fs.PyFileSystem)
    older = open_dataset(DeltaTable(tmp_path / name, version=0), str(tmp_path / name))
    assert older.to_table().to_pylist() == [{"id": 1, "day é%": "a/b c%25"}, {"id": 2, "day é%": "a/b c%25"}]


@pytest.mark.slow
def test_nobody_else_asks_delta_rs_for_pyarrow() -> None:
    asked = {"to_pyarrow_dataset", "to_pyarrow_table", "to_pandas"}
    files = [f for folder in ("cdc_assets", "spark") for f in (ROOT / folder).rglob("*.py")]
    found = {f.name for f in files for node in ast.walk(ast.parse(f.read_text())) if getattr(node, "attr", None) in asked}
    assert found == {"delta_rows.py"}
