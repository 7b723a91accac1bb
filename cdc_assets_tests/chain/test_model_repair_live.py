"""`cdc repair model`, as the messages name it: past a statement that Debezium cannot parse, and of tables that it misreads.

The oracle is the server, read by SQL; silver is read by delta-rs.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.databases.binlog_events import GAPS
from cdc_assets_tests.support.live.binlog_chain import BinlogChain, binlog_chain
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_binlog import LiveBinlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

# Of each table: its columns and first row.
TABLES = {
    "sound": ("id int PRIMARY KEY, v varchar(9)", "1, 'é'"),
    "shifted": ("id int PRIMARY KEY, item_id int", "1, 10"),
    "swapped": ("id int PRIMARY KEY, a int, b int", "1, 2, 3"),
    "grown": ("id int PRIMARY KEY, v varchar(9)", "1, 'a'"),
    "twice": ("id int PRIMARY KEY", "1"),
    "gaps": ("id int PRIMARY KEY, n int, v text", "1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'"),
}
# What Debezium's grammar does not have, of a table that nobody declares.
FOREIGN = {
    "mysql": (
        "CREATE TABLE {0}.n5 (id int PRIMARY KEY) PARTITION BY KEY(id) PARTITIONS 3",
        "ALTER TABLE {0}.n5 REORGANIZE PARTITION",
    ),
    "mariadb": ("CREATE TABLE {0}.n5 (id int PRIMARY KEY)", "ALTER TABLE {0}.n5 ADD\n SYSTEM   VERSIONING"),
}
# The same, and it adds a column to a declared one; its definition can be read.
GROWN = {
    "mysql": (
        """ALTER TABLE grown ADD n int DEFAULT (JSON_VALUE('{"a": 1}', '$.a' RETURNING SIGNED))""",
        "ALTER TABLE grown ALTER n SET DEFAULT 7",
    ),
    "mariadb": ("ALTER TABLE grown ADD n VARCHARACTER(5) DEFAULT '7'",),
}


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def ground(
    request: pytest.FixtureRequest, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BinlogChain]:
    live: LiveBinlog = request.getfixturevalue(request.param)
    own = live.renamed(f"mend{request.param}")
    made = [f"CREATE TABLE {own.name}.{name} ({columns})" for name, (columns, _) in TABLES.items()]
    rows = [f"INSERT INTO {own.name}.{name} VALUES ({row})" for name, (_, row) in TABLES.items()]
    own.server.execute(f"CREATE DATABASE {own.name}", *made, *rows)
    signals = {"reconciliation": {"signals": f"cdc_assets.signal_{own.name}"}} if request.param == "mysql" else {}
    with binlog_chain(own, lake, remote, tmp_path_factory.mktemp(own.name)) as ground:
        ground.declare([{"name": f"{own.name}.{table}"} for table in TABLES], **signals)
        assert [row["summary"] for row in ground.cdc.json("apply", own.name)] == ["created", "created"]
        assert ground.carry() == ""
        yield ground


def mend(ground: BinlogChain, text: str) -> Any:
    """To the letter: the command that the text names."""
    commands = set(re.findall(r"Mend: (cdc repair model \S+(?: \w+)?)", text.replace(", which goes past it", "")))
    assert len(commands) == 1, text
    return ground.cdc.json(*shlex.split(commands.pop())[1:])


def hold(ground: BinlogChain) -> str:
    """Why a table is held, once that can be told: the connector stores its offset now and then."""
    told, deadline = ground.carry(), time.monotonic() + 120
    while "Mend: " not in told:
        assert time.monotonic() < deadline, told
        told = ground.append()
    return told


def test_a_statement_of_a_table_that_nobody_declares_is_passed_over(ground: BinlogChain) -> None:
    other = f"other{ground.kind}"
    made, altered = (text.format(other) for text in FOREIGN[ground.kind])
    ground.play(f"CREATE DATABASE {other}", made, altered, "INSERT INTO sound VALUES (2, '€')")
    told = ground.stands()
    shown = " ".join(altered.split())
    assert "Debezium stands at a statement (behind binlog.0" in told
    assert shown in told
    assert told.endswith(f"Mend: cdc repair model {ground.connector}, which goes past it")
    assert "would pass over the statement at binlog.0" in ground.cdc("repair", "model", ground.name, "--dry-run")
    done = mend(ground, told)
    assert [" ".join(passed["statement"].split()) for passed in done["passed"]] == [shown]
    assert re.fullmatch(r"binlog\.\d+:\d+", done["passed"][0]["place"])
    assert done["read_again"] == []
    # Nothing of it is left, and the connector starts again from what it has written down.
    assert not [key for key in ground.own.connect.config(ground.connector) or {} if "ddl.filter" in key]
    ground.own.connect.stop(ground.connector)
    ground.own.connect.resume(ground.connector)
    ground.own.connect.wait_running(ground.connector)
    assert ground.carry() == ""
    assert ground.is_equal("sound")


def test_a_table_that_is_misread_is_held_until_it_is_read_again(ground: BinlogChain) -> None:
    ground.play(
        "ALTER TABLE shifted ADD COLUMN kind int DEFAULT 5 AFTER thing_id, CHANGE COLUMN item_id thing_id int",
        "INSERT INTO shifted VALUES (2, 20, 7)",
        "INSERT INTO sound VALUES (3, 'ž')",
    )
    told = hold(ground)
    assert "since ALTER TABLE shifted ADD COLUMN kind" in told
    assert ground.is_equal("sound")
    done = mend(ground, told)
    assert (done["passed"], done["read_again"]) == ([], [f"{ground.name}__shifted"])
    ground.play("INSERT INTO shifted VALUES (3, 30, 8)", "UPDATE shifted SET kind = 9 WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("shifted")


def test_rows_between_two_statements_are_held_until_they_are_read_again(ground: BinlogChain) -> None:
    """When somebody looks the model is right again; the row came by one that was not."""
    ground.play(
        "ALTER TABLE twice ADD r REAL",
        "INSERT INTO twice VALUES (2, 3.141592653589793)",
        "ALTER TABLE twice MODIFY r DOUBLE",
        "INSERT INTO twice VALUES (3, 2.718281828459045)",
    )
    told = hold(ground)
    assert "1 event that silver has not folded yet came by a model that was never compared" in told
    done = mend(ground, told)
    assert (done["passed"], done["read_again"]) == ([], [f"{ground.name}__twice"])
    assert ground.carry() == ""
    assert ground.is_equal("twice")


def test_a_connector_that_rows_have_stopped_goes_on(ground: BinlogChain) -> None:
    ground.play(
        "ALTER TABLE swapped RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "INSERT INTO swapped (id, a, b) VALUES (2, 5, 6)",
        "INSERT INTO sound VALUES (4, 'x')",
    )
    told = ground.stands()
    assert "rows of table swapped do not fit Debezium's model" in told
    done = mend(ground, told)
    assert done["read_again"] == [f"{ground.name}__swapped"]
    ground.play("INSERT INTO swapped (id, a, b) VALUES (3, 7, 8)", "DELETE FROM swapped WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("swapped")
    assert ground.is_equal("sound")


def test_a_statement_of_a_declared_table_is_passed_over_and_the_table_read_again(ground: BinlogChain) -> None:
    ground.play("INSERT INTO grown VALUES (2, 'b')", *GROWN[ground.kind], "INSERT INTO grown (id, v) VALUES (3, 'c')")
    told = ground.stands()
    assert "ALTER TABLE grown ADD n" in told
    done = mend(ground, told)
    assert [passed["statement"] for passed in done["passed"]][:1] == [GROWN[ground.kind][0]]
    assert done["read_again"] == [f"{ground.name}__grown"]
    ground.play("INSERT INTO grown (id, v) VALUES (4, 'd')", "UPDATE grown SET n = 9 WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("grown")


def test_images_with_gaps_are_passed_and_their_table_is_read_again(ground: BinlogChain) -> None:
    """A key is all that such an image has of a row that is deleted; the other tables keep what they have."""
    assert ground.flow() == ""
    ground.play(
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE gaps SET n = 77 WHERE id = 1",
        "DELETE FROM gaps WHERE id = 2",
        "INSERT INTO gaps (id, v) VALUES (4, 'd')",
    )
    ground.play("INSERT INTO sound VALUES (5, 'y')")
    ground.stands()
    told = ground.flow()
    assert GAPS in told
    command = f"cdc repair model {ground.name} {ground.name}__gaps"
    assert f"and read the table again: {command}. Red until" in told
    assert ground.cdc.json(*command.split()[1:])["read_again"] == [f"{ground.name}__gaps"]
    ground.play("INSERT INTO gaps VALUES (5, 5, 'e')")
    assert ground.carry() == ""
    assert ground.is_equal("gaps")
    assert ground.is_equal("sound")
    # Red until the rows were compared, by the command that the text names.
    assert f"{ground.name}.gaps: " in ground.flow()
    assert f"cdc reconcile {ground.name}.{ground.name}__gaps" in told
    (compared,) = ground.cdc.json("reconcile", f"{ground.name}.{ground.name}__gaps")
    assert compared["verdict"] == "equal"
    assert ground.flow() == ""
