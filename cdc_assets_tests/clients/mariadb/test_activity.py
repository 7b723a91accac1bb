"""What a binlog's server tells of its tables' changes: its own row events, against what the test itself has committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog_activity import MariaDbActivity, MySqlActivity
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, BinlogServer
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.mysql_server import mysql_server
from spark.specs import Column
from spark.values.sql_dialects import MySqlDialect

pytestmark = pytest.mark.service

Activity = MariaDbActivity | MySqlActivity
A, B, C, D = (TableId("act", name) for name in ("a", "b", "c (x)", "d"))


@pytest.fixture(scope="module", params=["mariadb", pytest.param("mysql", marks=pytest.mark.all)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BinlogServer]:
    started = {"mariadb": mariadb_server, "mysql": mysql_server}[kind]
    with started(tmp_path_factory.mktemp("activity"), "--max-binlog-size=4096") as found:
        tables = [f"CREATE TABLE act.`{i.table}` (id int PRIMARY KEY, v int)" for i in (A, B, C, D)]
        found.execute("CREATE DATABASE act", *tables, "CREATE DATABASE other", "CREATE TABLE other.a (id int)")
        yield found


@pytest.fixture
def activity(kind: str, server: BinlogServer, monkeypatch: pytest.MonkeyPatch) -> Activity:
    monkeypatch.setenv("CDC_SECRET_ACT", PASSWORD)
    declared = {"kind": kind, "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "act"}}
    if kind == "mysql":
        return MySqlActivity(MySql.model_validate(declared))
    return MariaDbActivity(MariaDb.model_validate(declared))


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_row_events_are_those_that_were_committed(
    server: BinlogServer, activity: Activity, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    server.execute("REPLACE INTO act.b VALUES (1, 1)", "REPLACE INTO act.a VALUES (3, 3)")
    begin, _ = activity.place_and_clock()
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("REPLACE INTO act.a VALUES (1, 1), (2, 2)")
        # Both tables have a Table_map event, and only one of them is changed.
        cursor.execute("UPDATE act.a, act.b SET act.a.v = act.a.v + 1 WHERE act.a.id = 1")
        cursor.execute("INSERT INTO other.a VALUES (1)")
        connection.commit()
        cursor.execute("INSERT INTO act.d VALUES (1, 1)")
        connection.rollback()
        cursor.execute("UPDATE act.d SET v = v")
        connection.commit()
    server.execute("FLUSH BINARY LOGS", "REPLACE INTO act.`c (x)` VALUES (1, 1)", "FLUSH BINARY LOGS", "DELETE FROM act.`c (x)`")
    end, _ = activity.place_and_clock()
    server.execute("UPDATE act.b SET v = 1", "REPLACE INTO act.b VALUES (9, 9)", "DELETE FROM act.b")
    found, unread = activity.row_events([A, B, C, D], begin, end)
    assert ({table for table, n in found.items() if n}, unread) == ({A, C}, "")
    assert found[C] == 2
    some, unread = activity.row_events([A], begin, end, seconds=-1.0)
    assert (set(some) <= {A}, "was not read" in unread) == (True, at_once < 500)


def test_tables_that_did_not_change_are_told_without_the_binlog(server: BinlogServer, activity: Activity) -> None:
    server.execute("REPLACE INTO act.a VALUES (5, 5)")
    _, seconds = activity.place_and_clock()
    assert A in activity.perhaps_changed([A, B, C, D, TableId("act", "none")], seconds - 60)
    assert A not in activity.perhaps_changed([A, B, C, D], seconds + 60)
    assert activity.perhaps_changed([], seconds) == []


def test_a_binlog_that_is_gone_is_said(server: BinlogServer, activity: Activity) -> None:
    begin, _ = activity.place_and_clock()
    server.execute("FLUSH BINARY LOGS")
    end, _ = activity.place_and_clock()

    def gone() -> bool:
        # The file stays until InnoDB needs it no more for its recovery.
        server.execute(f"PURGE BINARY LOGS TO '{end.file}'")
        return begin.file not in {row[0] for row in server.query("SHOW BINARY LOGS")}

    until(gone)
    found, unread = activity.row_events([A], begin, end)
    assert (dict(found), unread) == ({}, f"the binlog from {begin.text} on was not read: the file is gone")


def test_a_condition_on_keys_finds_them_whatever_a_backslash_means(server: BinlogServer) -> None:
    """What `--heal` sends to a MySQL's connector, run by a server of the same SQL in sessions of both modes."""
    server.execute("CREATE TABLE act.odd (code varchar(20), line int, PRIMARY KEY (code, line)) CHARACTER SET utf8mb4")
    codes = ["c'1", 'c"1', "c\\1", "c\\'; --", "c%s", "ü€", "", "x"]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO act.odd VALUES (%s, %s)", [(code, line) for code in codes for line in (-1, 2)])
    columns = (Column("code", "text", False), Column("line", "integer", False))
    wanted = [(code, 2) for code in codes[:-1]]
    condition = MySqlDialect().condition(columns, wanted)
    for mode in ("", "NO_BACKSLASH_ESCAPES"):
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET SESSION sql_mode = '{mode}'")
            cursor.execute(f"SELECT code, line FROM act.odd WHERE {condition}")
            assert sorted(cursor.fetchall()) == sorted(wanted)
