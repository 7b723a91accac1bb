"""Statements and sessions of the field's bug reports, through the chain of a MariaDB and of a MySQL, one table each.

Each is right, or is refused or red by a text that names what mends it. That is done here to the letter, and then silver is what
the server says, by values.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets_tests.support.live.binlog_chain import BinlogChain, binlog_chain
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_binlog import LiveBinlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

# Of each table: its columns and first rows.
TABLES = {
    "sound": ("id int PRIMARY KEY, v varchar(9)", "(1, 'é')"),
    "remade": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a'), (2, 'b')"),
    "ghosted": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a'), (2, 'b')"),
    "rekeyed": ("id int NOT NULL, id2 int NOT NULL, v int, PRIMARY KEY (id)", "(1, 11, 1), (2, 12, 2)"),
    "computed": ("id int PRIMARY KEY", "(1)"),
    "floats": ("id int PRIMARY KEY", "(1)"),
    "times": ("id int PRIMARY KEY, t time(6)", "(1, '12:34:56.789012')"),
    "comments": ("id int PRIMARY KEY", "(1)"),
    "years": ("id int PRIMARY KEY, y year", "(1, 1999)"),
    "prepared": ("id int PRIMARY KEY", "(1)"),
    "added": ("id int PRIMARY KEY", "(1)"),
    "remade_unseen": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a')"),
    "versioned": ("id int PRIMARY KEY, n int", "(1, 1)"),
    "packed": ("id int PRIMARY KEY, v varchar(500)", "(1, 'a')"),
}
COMMENTS = {
    "mariadb": (
        "ALTER TABLE comments /*! ADD COLUMN c int */",
        "ALTER TABLE comments ADD COLUMN d int /*M!100301 INVISIBLE */ AFTER id",
    ),
    "mysql": (
        "ALTER TABLE comments /*!80000 ADD COLUMN c int */",
        "ALTER TABLE comments ADD COLUMN d int /*!80023 INVISIBLE */ AFTER id",
    ),
}
_COMMAND = re.compile(r"cdc (?:repair model|repair bronze|replay) [^;,()]+?(?= \(|[;,)]|\. |\s*$|$)", re.MULTILINE)


on_both = pytest.mark.parametrize("ground", ["mariadb", "mysql"], indirect=True)
on_mariadb = pytest.mark.parametrize("ground", ["mariadb"], indirect=True)
on_mysql = pytest.mark.parametrize("ground", ["mysql"], indirect=True)


@pytest.fixture(scope="module")
def ground(
    request: pytest.FixtureRequest, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BinlogChain]:
    live: LiveBinlog = request.getfixturevalue(request.param)
    own = live.renamed(f"case{request.param}")
    made = [f"CREATE TABLE {own.name}.{name} ({columns})" for name, (columns, _) in TABLES.items()]
    rows = [f"INSERT INTO {own.name}.{name} VALUES {row}" for name, (_, row) in TABLES.items()]
    own.server.execute(f"CREATE DATABASE {own.name}", *made, *rows)
    with binlog_chain(own, lake, remote, tmp_path_factory.mktemp(own.name)) as ground:
        declare(ground)
        assert [row["summary"] for row in ground.cdc.json("apply", own.name)] == ["created", "created"]
        assert ground.carry() == ""
        yield ground


def declare(ground: BinlogChain, **of_tables: dict[str, Any]) -> None:
    """All that are declared already, with these keys of single tables."""
    known = json.loads(ground.file.read_text())["tables"] if ground.file.exists() else []
    tables = known or [{"name": f"{ground.name}.{table}"} for table in TABLES]
    tables = [table | of_tables.get(table["name"].partition(".")[2], {}) for table in tables]
    # MariaDB's is declared by itself.
    signals = {"reconciliation": {"signals": f"cdc_assets.signal_{ground.name}"}} if ground.kind == "mysql" else {}
    ground.declare(tables, **signals)


def named(text: str) -> str:
    """The one command that a text names."""
    commands = {" ".join(command.split()) for command in _COMMAND.findall(text.replace(", which goes past it", ""))}
    assert len(commands) == 1, text
    return commands.pop()


def run_named(ground: BinlogChain, text: str) -> str:
    """The command that a text names, to the letter."""
    command = named(text)
    ground.cdc(*shlex.split(command)[1:])
    return command


def refused(ground: BinlogChain, text: str) -> str:
    """Why the command that a text names does nothing yet."""
    return ground.cdc(*shlex.split(named(text))[1:], code=1)


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


def held(ground: BinlogChain) -> str:
    """Why a table is held, once that can be told: the connector stores its offset now and then."""
    told, deadline = ground.carry(), time.monotonic() + 120
    while "Mend: " not in told:
        assert time.monotonic() < deadline, told
        told = ground.append()
    return told


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


@on_mariadb
def test_another_number_of_the_server(ground: BinlogChain) -> None:
    """For a while: MariaDB's connector loses what was altered meanwhile when it starts, and would shift values."""
    ((before,),) = ground.own.server.query("SELECT @@global.server_id")
    ground.own.server.execute("SET GLOBAL server_id = 77")
    try:
        ground.play("INSERT INTO sound VALUES (2, 'b')")
        assert ground.carry() == ""
        ground.play("INSERT INTO sound VALUES (3, 'c')", "ALTER TABLE sound MODIFY v varchar(9) FIRST")
        ground.play("INSERT INTO sound VALUES ('d', 4)")
        assert ground.carry() == ""
        assert ground.is_equal("sound")
    finally:
        ground.own.server.execute(f"SET GLOBAL server_id = {before}")
    ground.play("INSERT INTO sound VALUES ('e', 5)")
    told = ground.carry()
    assert "since ALTER TABLE sound MODIFY v varchar(9) FIRST" in told
    assert "which another server id wrote" in told
    assert run_named(ground, told) == f"cdc repair model {ground.name} {ground.name}__sound"
    ground.cdc("restart", ground.connector)
    ground.own.connect.wait_running(ground.connector)
    ground.play("INSERT INTO sound VALUES ('f', 6)")
    assert ground.carry() == ""
    assert ground.is_equal("sound")


@on_mariadb
def test_statements_in_executable_comments(ground: BinlogChain) -> None:
    """Debezium's parser leaves them out, and the connector stops at the next row."""
    ground.play(*COMMENTS[ground.kind], "INSERT INTO comments (id, c, d) VALUES (2, 3, 4)")
    told = ground.carry()
    assert "rows of table comments do not fit Debezium's model" in told
    assert run_named(ground, told) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("comments")


@on_mysql
def test_statements_in_comments_that_its_own_parser_reads(ground: BinlogChain) -> None:
    ground.play(*COMMENTS[ground.kind], "INSERT INTO comments (id, c, d) VALUES (2, 3, 4)")
    assert ground.carry() == ""
    assert ground.is_equal("comments")


@on_both
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


@on_both
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


@on_both
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


@on_mysql
def test_a_generated_column_that_its_owner_leaves_out(ground: BinlogChain) -> None:
    """MySQL's connector reads the clause, and silver asks whether the column is wanted; the other tables go on."""
    ground.play("ALTER TABLE computed ADD g int GENERATED ALWAYS AS (id * 2) STORED", "INSERT INTO computed (id) VALUES (2)")
    told = ground.carry()
    assert "computed: column 'g' has type integer: it is a generated column" in told
    assert "leave the column out (except_column_list)" in told
    declare(ground, computed={"except_column_list": ["g"]})
    assert ground.carry() == ""
    assert ground.is_equal("computed", "g")


@on_mariadb
def test_a_generated_column_that_is_added(ground: BinlogChain) -> None:
    """Debezium's grammar has no such clause, and the connector stands at the statement."""
    ground.play("ALTER TABLE computed ADD g int GENERATED ALWAYS AS (id * 2) STORED", "INSERT INTO computed (id) VALUES (2)")
    told = ground.carry()
    assert "ALTER TABLE computed ADD g int" in told
    assert "except_column_list" in refused(ground, told)
    declare(ground, computed={"except_column_list": ["g"]})
    assert run_named(ground, told) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("computed", "g")


@on_both
def test_a_number_of_seven_digits_that_is_added(ground: BinlogChain) -> None:
    """The connector has no value of it while it streams; what the column may be read as is for its owner to say."""
    ground.play("ALTER TABLE floats ADD f FLOAT4", "INSERT INTO floats VALUES (2, 1.5)")
    told = held(ground)
    assert "f is read as float4 (of FLOAT4), and is float" in told
    assert "accept_inexact" in refused(ground, told)
    declare(ground, floats={"accept_inexact": ["f"]})
    assert run_named(ground, held(ground)) == f"cdc repair model {ground.name} {ground.name}__floats"
    assert ground.carry() == ""
    assert ground.is_equal("floats")


@on_mysql
def test_lengths_of_time(ground: BinlogChain) -> None:
    """A TIME of MySQL is taken for a time of day. Another one sets its record aside, until the column is left out."""
    ground.play("INSERT INTO times VALUES (2, '-00:00:00.000001'), (3, '838:59:59')")
    assert ground.carry() == ""
    assert {difference["kind"] for difference in compared(ground, "times", code=1)["differences"]} == {"missing"}
    records = ground.cdc.json("quarantine", "list", short(ground, "times").replace(".", "/"))
    assert all("it does not fit the type" in record["message"] for record in records)
    assert len(records) == 2
    declare(ground, times={"except_column_list": ["t"]})
    ground.cdc("quarantine", "redrive", short(ground, "times").replace(".", "/"))
    assert ground.is_equal("times", "t")
    assert compared(ground, "times")["verdict"] == "equal"


@on_mariadb
def test_times_below_zero_and_above_a_day(ground: BinlogChain) -> None:
    ground.play("INSERT INTO times VALUES (2, '-00:00:00.000001'), (3, '838:59:59')")
    assert ground.carry() == ""
    assert compared(ground, "times")["verdict"] == "equal"


@on_both
def test_the_year_zero(ground: BinlogChain) -> None:
    ground.play("INSERT INTO years VALUES (2, 0), (3, 1901), (4, 2155)", "UPDATE years SET y = 0 WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("years")


@on_both
def test_transactions_of_two_phases(ground: BinlogChain) -> None:
    """What is prepared is sent at once; of a rollback no event tells."""
    ground.play("XA START 'a'", "INSERT INTO prepared VALUES (2)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
    ground.play("XA START 'b'", "INSERT INTO prepared VALUES (3)", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    assert ground.carry() == ""
    assert ground.is_equal("prepared")
    ground.play("XA START 'c'", "INSERT INTO prepared VALUES (4)", "XA END 'c'", "XA PREPARE 'c'", "XA ROLLBACK 'c'")
    assert ground.carry() == ""
    assert loses_phantoms(ground, "prepared")


@on_both
def test_a_table_that_is_made_while_the_connector_runs(ground: BinlogChain) -> None:
    """By words that the connector reads otherwise; onboarding asks the server."""
    ground.play(
        "CREATE TABLE late (id INTEGER UNSIGNED PRIMARY KEY, r REAL, b BOOLEAN)",
        "INSERT INTO late VALUES (4294967295, 2.718281828459045, FALSE)",
    )
    ground.cdc("onboard", ground.name, f"{ground.name}.late", "--route", "incremental")
    ground.play("INSERT INTO late VALUES (3000000000, 3.141592653589793, TRUE)")
    assert ground.carry() == ""
    assert ground.is_equal("late")


@on_both
def test_a_table_that_the_binlog_does_not_tell_of(ground: BinlogChain) -> None:
    """Nobody declares it, so its rows harm nobody; onboarding asks the server for its definition."""
    unseen = "CREATE TABLE unseen (id int PRIMARY KEY, v varchar(9) CHARACTER SET latin1)"
    ground.play("SET sql_log_bin = 0", unseen, "SET sql_log_bin = 1", "INSERT INTO unseen VALUES (1, 'é')")
    assert ground.carry() == ""
    ground.cdc("onboard", ground.name, f"{ground.name}.unseen", "--route", "incremental")
    ground.play("INSERT INTO unseen VALUES (2, 'ü')", "UPDATE unseen SET v = 'ö' WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("unseen")


@on_both
def test_a_declared_table_that_is_made_again_without_the_binlog(ground: BinlogChain) -> None:
    """Debezium has let go of its model, and meets rows that it has none for."""
    ground.play(
        "DROP TABLE remade_unseen",
        "SET sql_log_bin = 0",
        "CREATE TABLE remade_unseen (id int PRIMARY KEY, n int)",
        "SET sql_log_bin = 1",
        "INSERT INTO remade_unseen VALUES (2, 5)",
    )
    told = ground.stands()
    assert run_named(ground, told) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("remade_unseen")
    assert ground.is_equal("sound")


@on_both
def test_a_column_that_the_binlog_does_not_tell_of(ground: BinlogChain) -> None:
    """Its rows have more columns than the model, and the connector stops."""
    ground.play("SET sql_log_bin = 0", "ALTER TABLE added ADD n int", "SET sql_log_bin = 1", "INSERT INTO added VALUES (2, 5)")
    told = ground.stands()
    assert "rows of table added do not fit Debezium's model" in told
    assert run_named(ground, told) == f"cdc repair model {ground.connector}"
    ground.play("INSERT INTO added VALUES (3, 6)")
    assert ground.carry() == ""
    assert ground.is_equal("added")
    assert ground.is_equal("sound")


@on_mariadb
def test_versions_of_rows(ground: BinlogChain) -> None:
    """MariaDB's own history, which neither grammar nor model has: refused, and what is altered so is altered back."""
    ground.play(
        "ALTER TABLE versioned ADD SYSTEM VERSIONING",
        "INSERT INTO versioned VALUES (2, 2)",
        "UPDATE versioned SET n = 3 WHERE id = 1",
        "DELETE FROM versioned WHERE id = 2",
    )
    assert "ALTER TABLE versioned ADD SYSTEM VERSIONING" in ground.stands()
    (told,) = ground.cdc.json("preflight", ground.name, code=1)
    (finding,) = [each for each in told["findings"] if each["check"] == "versioned"]
    assert (finding["level"], finding["subject"]) == ("fail", f"{ground.name}.versioned")
    statement = finding["mend"].partition(", or ")[0]
    ground.play(statement, "INSERT INTO versioned VALUES (3, 3)")
    assert run_named(ground, ground.stands()) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("versioned")
    assert ground.is_equal("sound")


@on_mariadb
def test_columns_that_the_server_compresses(ground: BinlogChain) -> None:
    """In a database that nobody captures, then in a captured table: the client reads no row of such a table."""
    ground.own.server.execute(
        "CREATE DATABASE packed",
        "CREATE TABLE packed.c (id int PRIMARY KEY, t text COMPRESSED)",
        "INSERT INTO packed.c VALUES (1, REPEAT('a', 500))",
    )
    ground.play("INSERT INTO sound (id, v) VALUES (9, 'z')")
    told = ground.stands()
    assert "CREATE TABLE packed.c" in told
    still = refused(ground, told)
    assert "MODIFY `t` … (without COMPRESSED)" in still
    rows = ground.status()
    assert "rows of a table with COMPRESSED columns" in rows
    ground.own.server.execute("ALTER TABLE packed.c MODIFY t text")
    assert run_named(ground, rows) == f"cdc repair model {ground.connector}"
    assert ground.carry() == ""
    assert ground.is_equal("sound")
    ground.play(
        "ALTER TABLE packed MODIFY v varchar(500) COMPRESSED",
        "INSERT INTO packed VALUES (2, REPEAT('b', 400))",
        "DELETE FROM packed WHERE id = 1",
        "ALTER TABLE packed MODIFY v varchar(500)",
        "INSERT INTO packed VALUES (3, 'c')",
    )
    assert run_named(ground, ground.stands()) == f"cdc repair model {ground.connector}"
    ground.play("INSERT INTO packed VALUES (4, 'd')")
    assert ground.carry() == ""
    assert ground.is_equal("packed")
    assert ground.is_equal("sound")
