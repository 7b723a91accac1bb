"""Statements and sessions of the field's bug reports, through the chain of a MariaDB, one table each.

Each is right, or is refused or red by a text that names what mends it. That is done here to the letter, and then silver is what
the server says, by values.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.defs.checks.schema import schema_result
from cdc_assets_tests.support.live.binlog_chain import BinlogChain, binlog_chain
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

# Of each table: its columns and first rows.
TABLES = {
    "remade": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a'), (2, 'b')"),
    "ghosted": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a'), (2, 'b')"),
    "rekeyed": ("id int NOT NULL, id2 int NOT NULL, v int, PRIMARY KEY (id)", "(1, 11, 1), (2, 12, 2)"),
    "comments": ("id int PRIMARY KEY", "(1)"),
}
COMMENTS = (
    "ALTER TABLE comments /*! ADD COLUMN c int */",
    "ALTER TABLE comments ADD COLUMN d int /*M!100301 INVISIBLE */ AFTER id",
)
_COMMAND = re.compile(r"cdc (?:repair model|repair bronze|replay) [^;,()]+?(?= \(|[;,)]|\. |\s*$|$)", re.MULTILINE)


@pytest.fixture(scope="module")
def ground(
    mariadb: LiveMariaDb, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BinlogChain]:
    own = mariadb.renamed("casemariadb")
    made = [f"CREATE TABLE {own.name}.{name} ({columns})" for name, (columns, _) in TABLES.items()]
    rows = [f"INSERT INTO {own.name}.{name} VALUES {row}" for name, (_, row) in TABLES.items()]
    own.server.execute(f"CREATE DATABASE {own.name}", *made, *rows)
    with binlog_chain(own, lake, remote, tmp_path_factory.mktemp(own.name)) as ground:
        ground.declare([{"name": f"{own.name}.{table}"} for table in TABLES])
        assert [row["summary"] for row in ground.cdc.json("apply", own.name)] == ["created", "created"]
        assert ground.carry() == ""
        yield ground


def run_named(ground: BinlogChain, text: str) -> str:
    """The one command that a text names, to the letter."""
    commands = {" ".join(command.split()) for command in _COMMAND.findall(text.replace(", which goes past it", ""))}
    assert len(commands) == 1, text
    command = commands.pop()
    ground.cdc(*shlex.split(command)[1:])
    return command


def short(ground: BinlogChain, table: str) -> str:
    return f"{ground.name}.{ground.name}__{table}"


def compared(ground: BinlogChain, table: str, *, code: int = 0) -> dict[str, Any]:
    (found,) = ground.cdc.json("reconcile", short(ground, table), code=code)
    return dict(found)


def is_healed(ground: BinlogChain, table: str, kinds: set[str]) -> bool:
    """The rows differ in this way, and `--heal` mends them."""
    found = compared(ground, table, code=1)
    assert {difference["kind"] for difference in found["differences"]} == kinds
    assert compared_by(ground, table, "--heal")["verdict"] == "equal"
    assert ground.carry() == ""
    return ground.is_equal(table)


def compared_by(ground: BinlogChain, table: str, option: str) -> dict[str, Any]:
    (found,) = ground.cdc.json("reconcile", short(ground, table), option)
    return dict(found)


def loses_phantoms(ground: BinlogChain, table: str) -> bool:
    """Silver has rows that the server has not; the command that `--heal` names takes them away."""
    found = compared(ground, table, code=1)
    assert {difference["kind"] for difference in found["differences"]} == {"phantom"}
    told = ground.cdc("reconcile", short(ground, table), "--heal", code=1)
    assert run_named(ground, told).startswith("cdc repair bronze ")
    assert ground.carry() == ""
    assert compared(ground, table)["verdict"] == "equal"
    return ground.is_equal(table)


def test_statements_in_executable_comments(ground: BinlogChain) -> None:
    """Debezium's parser leaves them out, and the connector stops at the next row."""
    ground.play(*COMMENTS, "INSERT INTO comments (id, c, d) VALUES (2, 3, 4)")
    told = ground.carry()
    assert "rows of table comments do not fit Debezium's model" in told
    assert run_named(ground, told) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("comments")


def test_a_table_that_is_dropped_and_made_again(ground: BinlogChain) -> None:
    ground.play(
        "DROP TABLE remade",
        "CREATE TABLE remade (id int PRIMARY KEY, v varchar(9))",
        "INSERT INTO remade VALUES (2, 'c'), (3, 'd')",
    )
    assert ground.carry() == ""
    schema = schema_result(ground.platform.lake, ground.source, ground.source.table(f"{ground.name}.remade"))
    assert "1 row of the one before" in str(schema.description), schema.description
    assert loses_phantoms(ground, "remade")


def test_a_table_that_another_one_takes_the_place_of(ground: BinlogChain) -> None:
    """As gh-ost and pt-online-schema-change make a new column; of rows that nobody has changed no event tells its default."""
    ground.play(
        "CREATE TABLE _ghosted_gho LIKE ghosted",
        "ALTER TABLE _ghosted_gho ADD COLUMN n int DEFAULT 5",
        "INSERT INTO _ghosted_gho (id, v) SELECT id, v FROM ghosted",
        "RENAME TABLE ghosted TO _ghosted_del, _ghosted_gho TO ghosted",
        "INSERT INTO ghosted VALUES (3, 'c', 6)",
        "UPDATE ghosted SET v = 'd' WHERE id = 2",
    )
    assert ground.carry() == ""
    assert is_healed(ground, "ghosted", {"differs"})


def test_a_primary_key_of_another_column(ground: BinlogChain) -> None:
    ground.play(
        "ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (id2)",
        "INSERT INTO rekeyed VALUES (1, 13, 3)",
        "UPDATE rekeyed SET v = 22 WHERE id2 = 12",
        "DELETE FROM rekeyed WHERE id2 = 11",
    )
    told = ground.carry()
    assert run_named(ground, told) == f"cdc replay {ground.name} {ground.name}__rekeyed"
    assert ground.carry() == ""
    assert ground.is_equal("rekeyed")
