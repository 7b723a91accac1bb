"""Names of SQL for the lake's tables, and how they are found in a statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.reading.lake_tables import LakeTable, distinct_names, lake_tables, near_names, tables_in, unknown_names
from cdc_assets.reading.spark_catalog import view_names, with_views
from cdc_assets.registry.loader import load_sources
from cdc_assets_tests.support.lake.delta_shop import SHOP


@pytest.fixture
def tables(tmp_path: Path) -> list[LakeTable]:
    (tmp_path / "shop.yaml").write_text(SHOP)
    return lake_tables(load_sources(tmp_path), "/lake")


def found(statement: str, tables: list[LakeTable]) -> list[str]:
    return [table.name for table in tables_in(statement, tables)]


def test_each_layer_has_its_names(tables: list[LakeTable]) -> None:
    assert [table.name for table in tables] == [
        *("silver.shop.order", "silver.shop.orders", "silver_now.shop.order", "silver_now.shop.orders", "history.shop.orders"),
        *("bronze.shop", "bronze.shop.order", "bronze.shop.orders", "quarantine.shop.order", "quarantine.shop.orders"),
        *("ledger.shop", "cuts.shop"),
    ]
    by_name = {table.name: table for table in tables}
    assert by_name["silver.shop.orders"].sensitive == ("customer",)
    assert by_name["bronze.shop"].sensitive == by_name["bronze.shop.orders"].sensitive == ("key", "value")
    assert by_name["bronze.shop.order"].sensitive == ()
    assert "row_key" in by_name["quarantine.shop.orders"].sensitive
    assert by_name["bronze.shop.orders"].path == by_name["bronze.shop"].path == "/lake/bronze/shop"


def test_a_name_that_is_no_word_stands_in_quotes() -> None:
    table = LakeTable(("silver", "shop", "2024"), "", None)  # type: ignore[arg-type]
    assert table.name == 'silver.shop."2024"'
    assert found('SELECT * FROM silver.shop."2024"', [table]) == ['silver.shop."2024"']


def test_a_statement_names_tables(tables: list[LakeTable]) -> None:
    assert found("SELECT * FROM silver.shop.orders o", tables) == ["silver.shop.orders"]
    assert found('FROM "silver" . SHOP."orders"', tables) == ["silver.shop.orders"]
    assert found("FROM bronze.shop WHERE bronze.shop.op = 'c'", tables) == ["bronze.shop"]
    assert found("SELECT 'silver.shop.orders' -- bronze.shop\n/* ledger.shop */", tables) == []
    assert found("FROM other.silver.shop.orders, silver.shop.orders_2", tables) == []


def test_an_unknown_name_is_told_with_those_near_to_it(tables: list[LakeTable]) -> None:
    assert unknown_names("FROM silver.shop.ordres JOIN bronze.shop ON bronze.shop.op = 'silver.x'", tables) == [
        "silver.shop.ordres"
    ]
    assert near_names("silver.shop.ordres", tables)[0] == "silver.shop.orders"
    assert "silver.shop.orders" in near_names("orders", tables)


def test_spark_is_given_views_in_the_tables_places(tables: list[LakeTable]) -> None:
    statement = "SELECT bronze.shop.orders.op, 'silver.shop.orders' FROM bronze.shop.orders, silver.shop.`order`, bronze.shop"
    named = tables_in(statement, tables)
    told = with_views(statement, named, view_names(named))
    assert told == "SELECT bronze_shop_orders.op, 'silver.shop.orders' FROM bronze_shop_orders, silver_shop_order, bronze_shop"


def test_columns_of_one_name_are_kept_apart() -> None:
    assert distinct_names(["a", "a", "b", "a_2", "a"]) == ["a", "a_2", "b", "a_2_2", "a_3"]
