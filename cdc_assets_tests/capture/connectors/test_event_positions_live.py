"""MariaDB 11.8, whose row events of a transaction have the place at which it begins: what Debezium sends of them, and silver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog_activity import MariaDbActivity
from cdc_assets.registry.databases import MariaDb
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

NAME = "evpos"
TABLE = TableId(NAME, "t")


@pytest.fixture(scope="module")
def newer(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("newer"), newer=True) as server:
        yield LiveMariaDb(server, live)


def test_the_last_change_of_a_transaction_is_in_silver(newer: LiveMariaDb, session: SparkSession, tmp_path: Path) -> None:
    own = newer.renamed(NAME)
    assert own.server.query("SELECT @@binlog_legacy_event_pos") in ([(0,)], ((0,),))
    own.server.execute(f"CREATE DATABASE {NAME}", f"CREATE TABLE {NAME}.t (id int PRIMARY KEY, v varchar(20))")
    own.server.execute(f"INSERT INTO {NAME}.t VALUES (1, 'read'), (2, 'read'), (3, 'read')")
    own.capture([f"{NAME}.t"])
    own.delivered()
    with own.connection(autocommit=False) as connection:
        for statement in (
            "UPDATE t SET v = 'once' WHERE id IN (1, 2, 3)",
            "UPDATE t SET v = 'twice' WHERE id = 3",
            "DELETE FROM t WHERE id = 2",
            "INSERT INTO t VALUES (4, 'new'), (2, 'again')",
            "UPDATE t SET v = 'last' WHERE id = 2",
        ):
            connection.execute(statement)
        connection.commit()
        connection.execute("UPDATE t SET v = 'later' WHERE id = 1")
        connection.commit()
    records = own.delivered()[f"{NAME}.{NAME}.t"][0]
    sources = [json.loads(record.value)["source"] for record in records if record.value]
    streamed = [(source["pos"], source["row"]) for source in sources if source["snapshot"] in (None, "false")]
    # Two transactions, two places; rows are numbered by event.
    assert len({pos for pos, _ in streamed}) == 2
    assert [row for _, row in streamed] == [0, 1, 2, 0, 0, 0, 1, 0, 0]
    lake = Lake(session, tmp_path, form=("debezium-json", "mariadb"))
    lake.put("t", *records)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", (Column("id", "integer", False), Column("v", "text")))
    lake.fold(spec)
    silver = sorted((row["id"], row["v"]) for row in values(spec.path))
    assert silver == sorted(tuple(row) for row in own.server.query(f"SELECT id, v FROM {NAME}.t"))


@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_its_binlog_is_read_once_and_to_the_place_that_is_asked_for(
    newer: LiveMariaDb, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """SHOW BINLOG EVENTS tells no end of such events."""
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    monkeypatch.setenv("CDC_SECRET_ACT", PASSWORD)
    database, table = f"read{at_once}", TableId(f"read{at_once}", "t")
    newer.server.execute(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id int PRIMARY KEY, v int)")
    declared = {"kind": "mariadb", "host": "127.0.0.1", "port": newer.server.port, "user": "cdc", "password": {"secret": "act"}}
    activity = MariaDbActivity(MariaDb.model_validate(declared))
    since, _ = activity.place_and_clock()
    with newer.server.connect(database=database, autocommit=False) as connection, connection.cursor() as cursor:
        for number in range(3):
            cursor.execute(f"INSERT INTO t VALUES ({number}, 0)")
            cursor.execute("UPDATE t SET v = v + 1")
        connection.commit()
    between, _ = activity.place_and_clock()
    newer.server.execute(f"DELETE FROM {database}.t")
    until, _ = activity.place_and_clock()
    counted = [activity.row_events([table], *places)[0][table] for places in ((since, between), (between, until), (since, until))]
    assert counted == [6, 1, 7]
