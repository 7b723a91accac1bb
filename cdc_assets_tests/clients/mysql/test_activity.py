"""What only a MySQL's binlog has, for the check `events_flow`: compressed transactions, many partitions, values kept for a
day.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog_activity import MySqlActivity
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server

pytestmark = pytest.mark.all

A, B, C, P = (TableId("act", name) for name in "abcp")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with mysql_server(tmp_path_factory.mktemp("activity")) as found:
        found.execute(
            "CREATE DATABASE act",
            *(f"CREATE TABLE act.{i.table} (id int PRIMARY KEY, v varchar(100))" for i in (A, B, C)),
            "CREATE TABLE act.p (id int PRIMARY KEY, v varchar(100)) PARTITION BY HASH (id) PARTITIONS 4",
        )
        yield found


@pytest.fixture
def activity(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> MySqlActivity:
    monkeypatch.setenv("CDC_SECRET_ACT", PASSWORD)
    declared = {"kind": "mysql", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "act"}}
    return MySqlActivity(MySql.model_validate(declared))


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 500])
def test_row_events_of_compressed_transactions(
    server: MySqlServer, activity: MySqlActivity, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """More events than are asked for at once; the last transaction ends where the look does."""
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    server.execute("DELETE FROM act.a", "DELETE FROM act.b", "REPLACE INTO act.c VALUES (7, 'before')")
    begin, _ = activity.place_and_clock()
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_transaction_compression = ON")
        for table, rows in ((A, 5), (B, 3)):
            for n in range(rows):
                cursor.execute(f"INSERT INTO act.{table.table} VALUES ({n}, REPEAT('x', 90))")
            connection.commit()
        cursor.execute("DELETE FROM act.a WHERE id < 2")
        cursor.execute("UPDATE act.b SET v = 'short' WHERE id = 1")
        connection.commit()
    end, _ = activity.place_and_clock()
    kinds = [row[2] for row in server.query(f"SHOW BINLOG EVENTS IN '{begin.file}' FROM {begin.position}")]
    assert kinds.count("Transaction_payload") == 3
    server.execute("DELETE FROM act.c")
    assert activity.row_events([A, B, C, P], begin, end) == ({A: 6, B: 4}, "")


def test_a_change_is_told_at_once_though_the_server_keeps_what_it_told(server: MySqlServer, activity: MySqlActivity) -> None:
    """`information_schema_stats_expiry` is a day; partitions are looked at, too."""
    server.query("SELECT table_name, update_time FROM information_schema.tables WHERE table_schema = 'act'")
    _, before = activity.place_and_clock()
    while (since := activity.place_and_clock()[1]) <= before:
        time.sleep(0.05)
    server.execute("INSERT INTO act.p VALUES (3, 'x')", "INSERT INTO act.c VALUES (9, 'x')")
    found = activity.perhaps_changed([A, C, P], since)
    assert {C, P} <= {*found}
    assert activity.perhaps_changed([C, P], since + 60) in ([], [P])
