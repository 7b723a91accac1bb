"""What changes rows and leaves no event, as far as a MySQL or MariaDB can be asked; and what a real MariaDB answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.capture.preflight import binlog_rules
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server

ORDERS, OTHER = TableId("shop", "orders"), TableId("shop", "other")


def by_check(variables: dict[str, str]) -> dict[str, str | None]:
    return {f.check: f.mend for f in binlog_rules.gap_settings(variables) if f.level == "fail"}


def test_settings_by_which_events_are_passed_over() -> None:
    assert by_check({}) == {}
    good = {"log_bin_compress": "OFF", "binlog_legacy_event_pos": "OFF", "init_connect": "SET NAMES utf8mb4"}
    assert by_check(good) == {}
    assert by_check({"log_bin_compress": "ON"}) == {"log_bin_compress": "SET GLOBAL log_bin_compress = OFF"}


def test_statements_that_the_binlog_has_twice() -> None:
    (found,) = binlog_rules.gap_settings({"binlog_alter_two_phase": "ON"})
    assert (found.check, found.level) == ("binlog_alter_two_phase", "warn")
    assert found.mend == "SET GLOBAL binlog_alter_two_phase = OFF"
    assert list(binlog_rules.gap_settings({"binlog_alter_two_phase": "OFF"})) == []


@pytest.mark.parametrize(
    ("variables", "level", "told"),
    [
        ({}, "warn", ""),
        ({"binlog_legacy_event_pos": "ON", "binlog_transaction_compression": "OFF"}, "warn", ""),
        ({"binlog_legacy_event_pos": "OFF"}, "fail", "SET GLOBAL binlog_legacy_event_pos = ON"),
        ({"binlog_transaction_compression": "ON"}, "fail", "SET PERSIST binlog_transaction_compression = OFF"),
    ],
)
def test_a_table_without_a_key_needs_a_place_of_each_event(variables: dict[str, str], level: str, told: str) -> None:
    answers = {
        "variables": list(variables.items()),
        "grants": [("GRANT ALL PRIVILEGES ON *.* TO `cdc`@`%`",)],
        "tables": [("shop", name, "BASE TABLE", "InnoDB", "") for name in ("orders", "other")],
        "keys": [("shop", "other")],
    }
    found = {f.subject: f for f in binlog_rules.findings([ORDERS, OTHER], answers) if f.check in ("key", "table")}
    assert (found[str(ORDERS)].check, found[str(ORDERS)].level) == ("key", level)
    assert told in str(found[str(ORDERS)].mend)
    assert found[str(OTHER)].level == "ok"


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SET SESSION binlog_format = 'STATEMENT'", "binlog_format"),
        ("set @@SQL_LOG_BIN=0; SET binlog_row_image=minimal", "binlog_row_image, sql_log_bin"),
    ],
)
def test_what_each_session_begins_with(statement: str, named: str) -> None:
    (found,) = binlog_rules.gap_settings({"init_connect": statement})
    assert (found.level, found.subject) == ("fail", "server")
    assert f"init_connect sets {named}:" in found.message


def test_tables_whose_rows_change_without_an_event() -> None:
    gaps = [
        ("shop", "orders", "BASE TABLE", "InnoDB", "row_format=DYNAMIC partitioned"),
        ("shop", "other", "SYSTEM VERSIONED", "InnoDB", ""),
        ("shop", "plain", "BASE TABLE", "InnoDB", None),
        ("shop", "quick", "BASE TABLE", "MEMORY", ""),
        ("shop", "not_ours", "BASE TABLE", "MEMORY", "partitioned"),
        ("shop", "seen", "VIEW", None, None),
    ]
    captured = [ORDERS, TableId("shop", "plain"), TableId("shop", "quick"), TableId("shop", "seen")]
    found = {(f.level, f.check, f.subject): f.mend for f in binlog_rules.gap_tables(captured, gaps, [("elsewhere", "c", "t")])}
    assert set(found) == {
        ("warn", "partitions", "shop.orders"),
        ("warn", "versioned", "shop.other"),
        ("warn", "engine", "shop.quick"),
        ("fail", "compressed_columns", "elsewhere.c"),
    }
    assert None not in found.values()
    (versioned,) = binlog_rules.gap_tables([OTHER], gaps[1:2], [])
    assert (versioned.level, versioned.check) == ("fail", "versioned")


@pytest.mark.service
def test_a_mariadb_is_asked(tmp_path: Path) -> None:
    with mariadb_server(tmp_path) as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
            "CREATE TABLE shop.other (id int PRIMARY KEY) WITH SYSTEM VERSIONING",
            "CREATE TABLE shop.c (id int PRIMARY KEY, t text COMPRESSED)",
            "CREATE TABLE shop.e (id int PRIMARY KEY, t enum('COMPRESSED', 'b') COMMENT 'compressed') ROW_FORMAT=COMPRESSED",
            "CREATE TABLE shop.quick (id int PRIMARY KEY) ENGINE=MEMORY",
            "SET GLOBAL log_bin_compress = ON",
            "SET GLOBAL binlog_alter_two_phase = ON",
            "SET GLOBAL init_connect = 'SET SESSION binlog_row_image=MINIMAL'",
        )
        answers = {name: server.query(query.format(schemas="'shop'")) for name, query in binlog_rules.QUERIES.items()}
    tables = [TableId("shop", name) for name in ("orders", "other", "c", "quick")]
    found = {(f.level, f.check, f.subject) for f in binlog_rules.findings(tables, answers)}
    assert {subject for _, check, subject in found if check == "compressed_columns"} == {"shop.c"}
    assert found > {
        ("warn", "partitions", "shop.orders"),
        ("fail", "versioned", "shop.other"),
        ("fail", "compressed_columns", "shop.c"),
        ("warn", "engine", "shop.quick"),
        ("fail", "log_bin_compress", "server"),
        ("warn", "binlog_alter_two_phase", "server"),
        ("fail", "init_connect", "server"),
    }
