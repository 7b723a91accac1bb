"""A pattern matches its own statement alone, and the list of tables is never empty."""

from __future__ import annotations

import re

import pytest

from cdc_assets.capture.connectors.temporary_connectors import (
    FAILURES,
    FILTER,
    is_passing,
    passing_config,
    pattern_of,
    without_passing,
)
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source

STATEMENTS = (
    "ALTER TABLE n5 REORGANIZE PARTITION",
    "ALTER TABLE `a,b`.t ADD c ENUM('x,y','${dir:/etc:passwd}') COMMENT 'what? (it''s) [a] {b} \\\\ ^$|*+.'",
    "ALTER TABLE t\n\tADD `ключ` VARCHAR(5)  DEFAULT 'é€'",
)


def patterns(listed: str) -> list[re.Pattern[str]]:
    """As Debezium takes the list: parted by commas, matched as a whole, without case."""
    return [re.compile(each, re.IGNORECASE | re.DOTALL) for each in listed.split(",")]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_matched_and_no_other(statement: str) -> None:
    pattern = pattern_of(statement)
    assert "," not in pattern
    assert "$" not in pattern  # Connect would resolve it
    (compiled,) = patterns(pattern)
    assert compiled.fullmatch(statement)
    assert compiled.fullmatch(" ".join(statement.split()))
    assert not [
        other for other in (*STATEMENTS, f"{statement} x", statement[:-1]) if other != statement and compiled.fullmatch(other)
    ]


@pytest.fixture
def source() -> Source:
    database = {"kind": "mariadb", "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": "shop.orders"}, {"name": "shop.items"}]
    return Source.model_validate({"source": "shop", "database": database, "tables": tables})


def test_the_running_config_stays_but_for_the_statements_and_the_tables_left_out(source: Source) -> None:
    running = {"name": "shop-capture", "table.include.list": r"shop\.orders,shop\.items"}
    passed = passing_config(source, running, STATEMENTS[:1], [])
    assert {**passed, FILTER: ""} == {**running, FILTER: ""}
    found = patterns(passed[FILTER])
    # What Debezium passes over by itself changes no table, and is passed as before.
    for other in ("GRANT SELECT ON *.* TO x", "CREATE DEFINER=`a`@`b` VIEW v AS SELECT 1", "DROP TEMPORARY TABLE IF EXISTS `t`"):
        assert any(pattern.fullmatch(other) for pattern in found), other
    for table in ("CREATE TABLE t (view int)", "ALTER TABLE t ADD event int", "RENAME TABLE a TO b", "DROP TABLE t"):
        assert not any(pattern.fullmatch(table) for pattern in found), table
    without = passing_config(source, running, [], [TableId("shop", "orders")])
    assert "orders" not in without["table.include.list"]
    assert "items" in without["table.include.list"]
    nothing = passing_config(source, running, [], [table.id for table in source.tables])
    assert nothing["table.include.list"]
    assert not {"orders", "items"} & set(re.findall(r"\w+", nothing["table.include.list"]))


def test_what_is_passed_over_ends_with_it(source: Source) -> None:
    running = {"name": "shop-capture", "table.include.list": r"shop\.orders,shop\.items"}
    passed = passing_config(source, running, [], [], unreadable=True)
    assert passed[FAILURES] == "warn"
    assert (is_passing(running), is_passing(passed), without_passing(passed)) == (False, True, running)
    # A setting of the registry's own stays.
    assert without_passing({**running, FAILURES: "warn"}) == {**running, FAILURES: "warn"}
