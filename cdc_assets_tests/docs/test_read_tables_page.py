"""Each block of docs/how-to/read-tables.md is run as it stands, on a table that delta-rs wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.delta_shop import write
from cdc_assets_tests.support.page_blocks import blocks_of, run_block

PAGE = "read-tables.md"
ROWS = {"DE": 83_000_000, "LI": 39_000, "AT": 9_000_000}
LARGE = [("AT", 9_000_000), ("DE", 83_000_000)]
ELSEWHERE = {"Spark": "cdc_assets_tests/spark/reading/test_reader_features.py"}


@pytest.fixture
def country(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table that the page reads, with one row per commit."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".cdc/lake/silver/world/country"
    for number, (iso, population) in enumerate(ROWS.items()):
        write(path, row(iso, population, number))
    return path


def row(iso: str, population: int, number: int) -> pa.Table:
    return pa.table({"iso": [iso], "population": [population], "_cdc_position": [f"0000.{number:020}"], "_cdc_op": ["c"]})


def pairs(rows: Any) -> list[tuple[str, int]]:
    """Of whatever a reader gives, in order."""
    if isinstance(rows, list):
        return sorted((found[0], found[1]) for found in rows)
    columns = [pa.table(rows)[name].to_pylist() for name in ("iso", "population")]
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize("title", ["delta-rs", "pandas", "Polars", "DuckDB", "DuckDB, any table"])
def test_a_reader_finds_the_large_countries(country: Path, title: str) -> None:
    assert pairs(run_block(PAGE, title)["rows"]) == LARGE


def test_pandas_reads_any_table(country: Path) -> None:
    assert pairs(run_block(PAGE, "pandas, any table")["rows"]) == sorted(ROWS.items())


def test_a_version_is_one_moment(country: Path) -> None:
    found = run_block(PAGE, "one moment")
    assert [*found["before"]["iso"]] == ["DE"]
    assert sorted(found["now"]["iso"]) == ["AT", "DE", "LI"]


def test_what_has_changed_is_found_by_position(country: Path) -> None:
    code = blocks_of(PAGE, "python")["what has changed"]
    first, second = code.split("# … later:\n")
    variables: dict[str, Any] = {}
    exec(first, variables)
    write(country, row("CH", 9_000_000, 7))
    assert DeltaTable(str(country)).version() == 3
    exec(second, variables)
    assert pa.table(variables["rows"]).to_pylist() == [{"iso": "CH", "_cdc_op": "c"}]


def test_no_block_is_left_out() -> None:
    played = {
        "delta-rs",
        "pandas",
        "Polars",
        "DuckDB",
        "DuckDB, any table",
        "pandas, any table",
        "one moment",
        "what has changed",
    }
    assert set(blocks_of(PAGE, "python")) == played | set(ELSEWHERE)
    assert all((Path(__file__).parents[2] / place).exists() for place in ELSEWHERE.values())
