"""`cdc sql` and notebooks over a lake in S3 and in GCS, without Spark. What the tables hold is known."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.reading.notebook_frames import ask, rows_of
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.lake.delta_shop import SHOP
from spark.table.data_files import write_file
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder
from spark.upkeep.file_rewrite import replace_files, turn

ORDERS = pa.table({"id": [1, 2, 3], "customer": ["ann", "bob", None], "total": ["1.50", "2.50", "3.50"]})


@pytest.fixture
def lake(object_lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/shop.yaml").write_text(SHOP)
    for name, value in (("CDC_HOME", tmp_path / "home"), ("CDC_SOURCES", tmp_path / "sources"), ("CDC_LAKE", object_lake)):
        monkeypatch.setenv(name, str(value))
    path = f"{object_lake}/silver/shop/orders"
    open_folder(path).make()
    with turn(path):
        table_of(path).create(ORDERS, {}, "")
    live = table_of(path).snapshot()
    more = write_file(open_folder(path), ORDERS.slice(0, 1))
    replace_files(path, live, [], [more], operation="WRITE")
    return object_lake


def test_a_question_is_answered(lake: str) -> None:
    result = CliRunner().invoke(app, ["sql", "SELECT count(*) AS n, sum(id) AS ids FROM silver.shop.orders", "-o", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [{"n": 4, "ids": 7}]
    shown = ask("SELECT id, customer FROM silver.shop.orders ORDER BY id, customer")
    assert shown["id"].tolist() == [1, 1, 2, 3]
    assert {str(value)[:5] for value in shown["customer"].dropna()} == {"hash:"}


def test_a_version_is_read_as_it_was(lake: str) -> None:
    assert sorted(rows_of("shop", "orders", version=0)["id"]) == [1, 2, 3]
    assert rows_of("shop", "orders").attrs["version"] == 1


def test_what_is_not_there_is_told(lake: str) -> None:
    assert ask()["table"].tolist() == ["silver.shop.orders"]
    for name in ("silver.shop.order", "bronze.shop"):
        with pytest.raises(RefusalError, match="nothing of it is in the lake yet"):
            ask(f"FROM {name}")
