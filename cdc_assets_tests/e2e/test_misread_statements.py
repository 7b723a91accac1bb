"""Statements that Debezium misreads, through the chain: the table stands still and says why, the others go on, it is mended.

The oracle is the server, read by SQL, and silver as delta-rs reads it.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdc_assets_tests.e2e.source_rows import binlog_rows, silver_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse

pytestmark = [pytest.mark.e2e, pytest.mark.all]

NAME, SOUND = "misread", "sound"
# Of each: its columns and first row, what Debezium misreads, and a row of then.
CASES = {
    "shifted": (
        "id int PRIMARY KEY, item_id int",
        "1, 10",
        ("ALTER TABLE shifted ADD COLUMN kind int DEFAULT 5 AFTER thing_id, CHANGE COLUMN item_id thing_id int",),
        "2, 20, 7",
    ),
    "wholes": ("id int PRIMARY KEY", "1", ("ALTER TABLE wholes ADD COLUMN u INTEGER UNSIGNED",), "9, 4294967295"),
    "reals": ("id int PRIMARY KEY", "1", ("ALTER TABLE reals ADD COLUMN r REAL",), "3, 3.141592653589793"),
    "unlogged": (
        "id int PRIMARY KEY, b int, c int",
        "1, 2, 3",
        ("SET sql_log_bin = 0", "ALTER TABLE unlogged MODIFY b int FIRST", "SET sql_log_bin = 1"),
        "8, 7, 9",
    ),
}
SOURCE = """
source: misread
database: {{kind: mariadb, host: 127.0.0.1, port: {port}, user: cdc, password: {{secret: shop_db_password}}}}
tables:
"""
SIGNALS = (
    "CREATE DATABASE IF NOT EXISTS cdc_assets",
    f"CREATE TABLE cdc_assets.signal_{NAME} (id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data longtext)",
    f"GRANT SELECT, INSERT, DELETE ON cdc_assets.signal_{NAME} TO 'cdc'@'%'",
)


def until(condition: Callable[[], bool], what: str, *, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


@pytest.fixture(scope="module", autouse=True)
def source(lakehouse: Lakehouse) -> Iterator[None]:
    """A source of the server that the stack has already, taken in by `cdc up`."""
    tables = [*(f"CREATE TABLE {NAME}.{name} ({told[0]})" for name, told in CASES.items())]
    rows = [*(f"INSERT INTO {NAME}.{name} VALUES ({told[1]})" for name, told in CASES.items())]
    sound = (f"CREATE TABLE {NAME}.{SOUND} (id int PRIMARY KEY, v varchar(9))", f"INSERT INTO {NAME}.{SOUND} VALUES (1, 'é')")
    lakehouse.mariadb.execute(f"CREATE DATABASE {NAME}", *tables, *rows, *sound)
    listed = "".join(f"  - name: {NAME}.{name}\n" for name in (*CASES, SOUND))
    (lakehouse.sources / f"{NAME}.yaml").write_text(SOURCE.format(port=lakehouse.mariadb.port) + listed)
    lakehouse.cdc("up", timeout=1200)
    # What reads a table again needs it, and says these statements: the connector's role may not make it.
    lakehouse.mariadb.execute(*SIGNALS)
    lakehouse.cdc("wait", NAME, "--timeout", "300")
    yield
    lakehouse.cdc("remove", NAME, "--yes", check=False)


def silver_name(table: str) -> str:
    return f"{NAME}__{table}"


def is_equal(lakehouse: Lakehouse, table: str) -> bool:
    columns, expected = binlog_rows(lakehouse.mariadb, f"{NAME}.{table}")
    try:
        return silver_rows(lakehouse.silver(NAME, silver_name(table)), columns) == expected
    except (KeyError, ValueError):  # a column that silver has not yet
        return False


def check(table: str) -> tuple[str, str]:
    return (f"silver/{NAME}/silver_{silver_name(table)}", "table_model")


def outcomes(graphql: Graphql) -> dict[str, str]:
    chosen = [check(table) for table in (*CASES, SOUND)]
    graphql.execute_checks(chosen)
    return {table: graphql.checks(check(table)[0]).get("table_model", "") for table in (*CASES, SOUND)}


def findings(lakehouse: Lakehouse) -> dict[str, dict[str, Any]]:
    (told,) = json.loads(lakehouse.cdc("preflight", NAME, "-o", "json", check=False).stdout)
    return {f["subject"].partition(".")[2]: f for f in told["findings"] if f["check"] == "table_model"}


def test_a_table_that_is_misread_stands_still_until_it_is_mended(lakehouse: Lakehouse, graphql: Graphql) -> None:
    assert outcomes(graphql) == dict.fromkeys((*CASES, SOUND), "SUCCEEDED")
    before = {table: silver_rows(lakehouse.silver(NAME, silver_name(table)), ["id"]) for table in CASES}
    with lakehouse.mariadb.connect(database=NAME) as connection, connection.cursor() as cursor:
        for name, (_, _, statements, row) in CASES.items():
            for statement in statements:
                cursor.execute(statement)
            cursor.execute(f"INSERT INTO {name} VALUES ({row})")
        cursor.execute(f"INSERT INTO {SOUND} VALUES (2, '€')")
    until(lambda: is_equal(lakehouse, SOUND), "the table that nobody touched does not go on")
    assert outcomes(graphql) == dict.fromkeys(CASES, "FAILED") | {SOUND: "SUCCEEDED"}
    told = lakehouse.cdc("status", check=False)
    assert (told.returncode, told.stdout.count("table_model") >= len(CASES)) == (1, True), told.stdout
    waited = lakehouse.cdc("wait", NAME, "--timeout", "20", check=False)
    assert waited.returncode == 1
    assert "ALTER TABLE shifted ADD COLUMN kind" in waited.stderr
    # No misread row has come.
    assert {table: silver_rows(lakehouse.silver(NAME, silver_name(table)), ["id"]) for table in CASES} == before
    mend(lakehouse)
    assert outcomes(graphql) == dict.fromkeys((*CASES, SOUND), "SUCCEEDED")
    for table in CASES:
        until(lambda table=table: is_equal(lakehouse, table), f"{table} is not mended")  # type: ignore[misc]
    lakehouse.cdc("wait", NAME, "--timeout", "300")
    assert json.loads(lakehouse.cdc("reconcile", NAME, "-o", "json").stdout)


def mend(lakehouse: Lakehouse) -> None:
    """To the letter, each by itself."""
    told = {table: str(found["mend"]) for table, found in findings(lakehouse).items() if found["level"] == "fail"}
    assert told == {table: f"cdc repair model {NAME} {silver_name(table)}" for table in CASES}
    for command in map(shlex.split, told.values()):
        lakehouse.cdc(*command[1:], timeout=600)
    assert {finding["level"] for finding in findings(lakehouse).values()} == {"ok"}
