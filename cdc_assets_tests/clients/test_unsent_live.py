"""Changes without an event that a server really writes: each is told with place, time and statement, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_activity import MariaDbActivity, MySqlActivity
from cdc_assets.clients.databases.binlog_events import GAPS
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, BinlogServer
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.mysql_server import mysql_server

pytestmark = [pytest.mark.service, pytest.mark.all]

Activity = MariaDbActivity | MySqlActivity
T, P, X, N = (TableId("x", name) for name in ("t", "p", "x", "n"))
CAPTURED = [T, P, X, N]
PARTITIONED = (
    "CREATE TABLE x.p (id int PRIMARY KEY) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (21), PARTITION p2 VALUES LESS THAN (99))"
)
COMPRESSED = "INSERT INTO x.t (id, d) VALUES (300, REPEAT('a', 300))"


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BinlogServer]:
    started = {"mariadb": mariadb_server, "mysql": mysql_server}[kind]
    with started(tmp_path_factory.mktemp("unsent")) as found:
        yield found


@pytest.fixture
def activity(kind: str, server: BinlogServer, monkeypatch: pytest.MonkeyPatch) -> Activity:
    monkeypatch.setenv("CDC_SECRET_ACT", PASSWORD)
    declared = {"kind": kind, "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "act"}}
    server.execute("DROP DATABASE IF EXISTS x", "CREATE DATABASE x", PARTITIONED, "CREATE TABLE x.x (id int PRIMARY KEY)")
    server.execute("CREATE TABLE x.t (id int PRIMARY KEY, v int, d text, j json)", "INSERT INTO x.p VALUES (0), (1), (2), (20)")
    server.execute("CREATE TABLE x.other (id int PRIMARY KEY)", 'INSERT INTO x.t VALUES (1, 1, "a", \'{"a": 1}\')')
    if kind == "mysql":
        return MySqlActivity(MySql.model_validate(declared))
    return MariaDbActivity(MariaDb.model_validate(declared))


@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_each_kind_is_told_with_place_and_statement(
    server: BinlogServer, activity: Activity, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(binlog_capture, "AT_ONCE", at_once)
    wanted = []
    since, clock = activity.place_and_clock()

    def play(*setting: str, statement: str, tables: tuple[TableId, ...] = (T,), kind: str = "") -> None:
        before, _ = activity.place_and_clock()
        server.execute(*setting, statement)
        after, _ = activity.place_and_clock()
        wanted.extend((table, before, after, statement, kind or statement.split()[0]) for table in sorted(tables))

    statement_form = "SET SESSION binlog_format = 'STATEMENT'"
    play(statement_form, statement="INSERT INTO x.t (id, v) VALUES (5, 1)")
    play(statement_form, "USE x", statement="UPDATE t SET v = v + 1")
    play("SET SESSION binlog_format = 'MIXED'", statement="DELETE FROM x.t WHERE id = 1")
    play(statement_form, statement="CREATE TABLE x.n SELECT 1 AS id", tables=(N,), kind="CREATE TABLE ... SELECT")
    play(statement="ALTER TABLE x.p DROP PARTITION p0", tables=(P,), kind="DROP PARTITION")
    play(statement="ALTER TABLE x.p EXCHANGE PARTITION p1 WITH TABLE x.x", tables=(P, X), kind="EXCHANGE PARTITION")
    play(statement="ALTER TABLE x.p TRUNCATE PARTITION p2", tables=(P,), kind="TRUNCATE PARTITION")
    if isinstance(activity, MariaDbActivity):
        server.execute("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
        play(statement=COMPRESSED, kind="Write_rows_compressed_v1")
        server.execute("SET GLOBAL log_bin_compress = OFF")
    else:
        server.execute("INSERT INTO x.t VALUES (88, 1, 'a', '{\"a\": 1, \"b\": [1, 2, 3, 4, 5, 6, 7, 8]}')")
        partial = ("SET SESSION binlog_rows_query_log_events = ON", "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
        play(*partial, statement="UPDATE x.t SET j = JSON_SET(j, '$.a', 2) WHERE id = 88", kind="Update_rows_partial")
    until, _ = activity.place_and_clock()

    found = activity.unsent_changes(CAPTURED, since, until)
    assert (found.read_to, found.unread) == (until, "")
    assert [(c.table, c.kind) for c in found.changes] == [(table, kind) for table, *_, kind in wanted]
    for change, (_, before, after, statement, _) in zip(found.changes, wanted, strict=True):
        assert before <= change.at < after
        assert change.statement.endswith(statement)
        written = activity.time_at(change.at)
        assert written is not None
        assert clock - 1 <= written <= time.time() + 1


def test_ordinary_statements_are_not_told(server: BinlogServer, activity: Activity) -> None:
    since, _ = activity.place_and_clock()
    server.execute(
        "INSERT INTO x.t (id, v) VALUES (7, 7), (8, 8)",
        "UPDATE x.t SET v = 9 WHERE id = 7",
        "REPLACE INTO x.t (id, v) VALUES (8, 1)",
        "DELETE FROM x.t WHERE id = 8",
        "CREATE INDEX i ON x.t (v)",
        "ALTER TABLE x.t ADD COLUMN c int",
        "ANALYZE TABLE x.t",
        "OPTIMIZE TABLE x.t",
        "GRANT SELECT ON x.t TO cdc",
        "CREATE TABLE x.empty (id int PRIMARY KEY)",
        "CREATE TABLE x.n SELECT * FROM x.t",
        "TRUNCATE TABLE x.x",
        "ALTER TABLE x.p ADD PARTITION (PARTITION p3 VALUES LESS THAN (1000))",
        "ALTER TABLE x.p REORGANIZE PARTITION p0, p1 INTO (PARTITION p01 VALUES LESS THAN (21))",
        "SET SESSION binlog_format = 'STATEMENT'",
        "REPLACE INTO x.other SELECT id FROM x.t",
        "DELETE FROM x.other",
        "FLUSH BINARY LOGS",
    )
    server.execute("UPDATE x.t SET v = 10")
    until, _ = activity.place_and_clock()
    found = activity.unsent_changes(CAPTURED, since, until)
    assert (found.changes, found.read_to, found.unread) == ([], until, "")
    assert activity.changes_with_gaps(CAPTURED, since) == []


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_row_images_with_gaps_are_told(server: BinlogServer, activity: Activity, image: str) -> None:
    since, _ = activity.place_and_clock()
    server.execute("UPDATE x.t SET v = 2", "FLUSH BINARY LOGS", "REPLACE INTO x.other VALUES (1)")
    before, _ = activity.place_and_clock()
    setting = [f"SET SESSION binlog_row_image = {image}"]
    if isinstance(activity, MySqlActivity):
        setting += ["SET SESSION binlog_rows_query_log_events = ON", "SET SESSION binlog_transaction_compression = ON"]
    server.execute(*setting, "UPDATE x.other SET id = 2", "UPDATE x.t SET v = 9 WHERE id = 1", "DELETE FROM x.t WHERE id = 1")
    (change,) = activity.changes_with_gaps(CAPTURED, since)
    assert (change.table, change.kind, change.statement) == (T, GAPS, "UPDATE x.t SET v = 9 WHERE id = 1")
    assert change.at > before
    assert change.at.file == before.file
    assert len(activity.changes_with_gaps(CAPTURED, since, most=9)) == (2 if image == "MINIMAL" else 1 + (image == "NOBLOB"))


def test_a_look_goes_on_where_its_seconds_were_over(
    server: BinlogServer, activity: Activity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even in the midst of a statement's events, whose table is named before them."""
    monkeypatch.setattr(binlog_capture, "AT_ONCE", 2)
    since, _ = activity.place_and_clock()
    server.execute("SET SESSION binlog_format = 'STATEMENT'", *[f"INSERT INTO x.t (id) VALUES ({n})" for n in range(50, 60)])
    until, _ = activity.place_and_clock()
    changes, looks, at = [], 0, since
    while at < until:
        found = activity.unsent_changes(CAPTURED, at, until, seconds=-1.0)
        assert bool(found.unread) == (found.read_to < until)
        changes += found.changes
        at, looks = found.read_to, looks + 1
        assert looks < 100
    assert looks > 5
    assert [*dict.fromkeys(c.statement for c in changes)] == [f"INSERT INTO x.t (id) VALUES ({n})" for n in range(50, 60)]
    gone = BinlogPosition.of("binlog.000000", 4)
    assert (
        activity.unsent_changes(CAPTURED, gone, until).unread
        == "the binlog from binlog.000000:4 on was not read: the file is gone"
    )
