"""Transactions of a MySQL that are written otherwise than by itself, or than row by row: through the chain, and past a restart.

What is right is silver's rows against the server's; what is not is red by a text whose commands mend it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.live.binlog_chain import BinlogChain, binlog_chain
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.live_mysql import LiveMySql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

TABLES = {
    "keyed": ("id int PRIMARY KEY, v varchar(9)", "(1, 'a')"),
    "keyless": ("v int", "(1), (2)"),
}
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
"""Another server's server_uuid."""


@pytest.fixture(scope="module")
def ground(
    mysql: LiveMySql, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BinlogChain]:
    own = mysql.renamed("mysqltransactions")
    made = [f"CREATE TABLE {own.name}.{name} ({columns})" for name, (columns, _) in TABLES.items()]
    rows = [f"INSERT INTO {own.name}.{name} VALUES {rows}" for name, (_, rows) in TABLES.items()]
    own.server.execute(f"CREATE DATABASE {own.name}", *made, *rows)
    with binlog_chain(own, lake, remote, tmp_path_factory.mktemp(own.name)) as ground:
        ground.declare([{"name": f"{own.name}.{table}"} for table in TABLES])
        assert [row["summary"] for row in ground.cdc.json("apply", own.name)] == ["created", "created"]
        assert ground.carry() == ""
        yield ground


def restart(ground: BinlogChain) -> None:
    ground.cdc("restart", ground.connector)
    ground.own.connect.wait_running(ground.connector)


@pytest.mark.parametrize("gtid", [f"{OTHER}:23", "AUTOMATIC:mine"])
def test_gtids_of_another_server_and_with_a_tag(ground: BinlogChain, gtid: str) -> None:
    """As a replica has them, and as applications of 8.3 and newer may: the offset's GTIDs are of two kinds at the restart."""
    number = 10 + len(gtid)
    ground.play(f"SET gtid_next = '{gtid}'", f"INSERT INTO keyed VALUES ({number}, 'b')", "SET gtid_next = 'AUTOMATIC'")
    assert ground.carry() == ""
    assert ground.is_equal("keyed")
    restart(ground)
    ground.play(f"UPDATE keyed SET v = 'c' WHERE id = {number}")
    assert ground.carry() == ""
    assert ground.is_equal("keyed")


def test_another_number_of_the_server(ground: BinlogChain) -> None:
    """Of a MySQL it is no part of a GTID, so nothing is lost at a restart."""
    ((before,),) = ground.own.server.query("SELECT @@global.server_id")
    ground.own.server.execute("SET GLOBAL server_id = 77")
    try:
        ground.play("INSERT INTO keyed VALUES (50, 'x')", "ALTER TABLE keyed MODIFY v varchar(9) FIRST")
        ground.play("INSERT INTO keyed VALUES ('y', 51)")
        assert ground.carry() == ""
        restart(ground)
        ground.play("INSERT INTO keyed VALUES ('z', 52)")
        assert ground.carry() == ""
    finally:
        ground.own.server.execute(f"SET GLOBAL server_id = {before}")
    ground.play("INSERT INTO keyed VALUES ('y', 53)")
    restart(ground)
    ground.play("INSERT INTO keyed VALUES ('z', 54)")
    assert ground.carry() == ""
    assert ground.is_equal("keyed")


def test_rows_without_a_key_in_a_compressed_transaction(ground: BinlogChain) -> None:
    """All of its row events have one place, by which rows of the second are taken for a replay of the first."""
    assert ground.flow() == ""
    ground.play("SET SESSION binlog_transaction_compression = ON", "INSERT INTO keyless VALUES (3), (4)")
    assert ground.carry() == ""
    assert ground.flow() == ""
    assert ground.is_equal("keyless")
    ground.play(
        "SET SESSION binlog_transaction_compression = ON",
        *("BEGIN", "INSERT INTO keyless VALUES (5), (6), (7)", "INSERT INTO keyless VALUES (8), (9)", "COMMIT"),
    )
    assert ground.carry() == ""
    assert ground.in_silver("keyless", ["v"]) != ground.in_source("keyless")[1]
    told = ground.flow()
    assert f"{ground.name}.keyless: 1 transaction whose row events have one place" in told
    for command in re.findall(r"cdc (?:stop|offsets reset|resume) [\w-]+", told):
        ground.cdc(*shlex.split(command)[1:])
    ground.own.connect.wait_running(ground.connector)
    assert ground.carry() == ""
    assert ground.is_equal("keyless")
    (command,) = re.findall(r"cdc reconcile \S+[^.\s]", told)
    (compared,) = ground.cdc.json(*shlex.split(command)[1:])
    assert compared["verdict"] == "equal"
    assert ground.flow() == ""
