"""The exact cut of a real MySQL: its place under writers, the texts of each type, and what happens where no lock is to be had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from cdc_assets.clients.databases import mysql
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.mysql import MySqlConnection, MySqlDatabase
from cdc_assets.clients.databases.row_pages import PagedRows, SqlReader
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.errors import CutRefusedError, DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server
from cdc_assets_tests.support.values.mysql_values import EXACT
from spark.proof.key_order import KeyRange
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec
from spark.values.column_forms import fits
from spark.values.sql_dialects import BUCKETS

pytestmark = pytest.mark.all

LEDGER, KINDS, WORDS = TableId("cut_", "ledger"), TableId("cut_", "kinds"), TableId("cut_", "words")
ID = Column("id", "integer", False, dialect="mysql")
WORD = (Column("w", "text", False, dialect="mysql"), Column("n", "integer", False, dialect="mysql"))
REALS = ("0.1", "16777216", "3.4028234e38", "1.17549435e-38", "1e-45", "-1.5")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with mysql_server(tmp_path_factory.mktemp("mysql"), "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as found:
        columns = "".join(f", c{i} {kind} NULL" for i, kind in enumerate(EXACT))
        found.execute(
            "CREATE DATABASE cut_",
            "CREATE TABLE cut_.ledger (id bigint AUTO_INCREMENT PRIMARY KEY, n int)",
            f"CREATE TABLE cut_.kinds (id int PRIMARY KEY, r float, k time(3){columns})",
            "CREATE TABLE cut_.words (w varchar(9) CHARACTER SET latin2 COLLATE latin2_general_ci, n int, PRIMARY KEY (w, n))",
            "INSERT INTO cut_.words VALUES ('\u017e', 1), ('a', 1), ('B', 2), ('a', 2), ('%s', 1), ('', 0)",
            "CREATE USER poor IDENTIFIED BY '" + PASSWORD + "'",
            "GRANT SELECT, REPLICATION CLIENT ON *.* TO poor",
        )
        listed = [(f"c{i}", sql) for i, (_, sqls) in enumerate(EXACT.values()) for sql in sqls]
        listed += [("r", value) for value in REALS]
        found.execute(*(f"INSERT INTO cut_.kinds (id, {c}) VALUES ({n}, {sql})" for n, (c, sql) in enumerate(listed)))
        yield found


def address(server: MySqlServer, user: str = "cdc", **more: Any) -> MySql:
    return MySql(kind="mysql", host="127.0.0.1", port=server.port, user=user, password={"secret": "shop"}, **more)


@pytest.fixture
def database(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> MySqlDatabase:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    return MySqlDatabase(address(server))


def row_text(*columns: Column, keys: tuple[str, ...] = ("id",)) -> RowText:
    return RowText(SilverSpec("s", "t", "-", "-", columns, keys))


def kinds() -> list[Column]:
    declared = [(f"c{i}", kind) for i, (kind, _) in enumerate(EXACT.values())]
    return [Column(name, kind, dialect="mysql") for name, kind in (*declared, ("r", "real"))]


def test_the_server_writes_each_type_as_silver_is_written(server: MySqlServer, database: MySqlDatabase) -> None:
    written = {c.name: c.type for c in database.tables_in_own_types([KINDS])[KINDS].columns}
    other = [c.name for c in kinds() if not fits(written[c.name], c)]
    # The length of a time, declared as a bigint: its table is compared in pages.
    assert [written[name] for name in other] == ["time(3)"]
    pages = PagedRows(SqlReader(MySqlConnection(address(server))))
    with open_cut(database, statement_timeout=60) as cut:
        for column in kinds():
            if column.name not in other:
                text = row_text(ID, column)
                assert cut.digest(KINDS, text, (0, 1)) == pages.digest(KINDS, text, (0, 1)), column
                keys = [f"{n};" for n in range(200)]
                assert cut.texts(KINDS, text, keys) == pages.texts(KINDS, text, keys), column


def test_a_zero_keeps_its_sign(server: MySqlServer, database: MySqlDatabase) -> None:
    """Pages calculate with a float, and -0 becomes 0."""
    server.execute("INSERT INTO cut_.kinds (id, r) VALUES (900, -0e0)")
    with open_cut(database, statement_timeout=60) as cut:
        assert cut.texts(KINDS, row_text(ID, Column("r", "real", dialect="mysql")), ["900;"])["900;"]["r"] == "80000000"


def test_the_place_is_the_snapshots_under_writers(server: MySqlServer, database: MySqlDatabase) -> None:
    stop = threading.Event()

    def write(number: int) -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("INSERT INTO cut_.ledger (n) VALUES (%s)", [number])
                if number == 0 and cursor.lastrowid % 50 == 0:
                    cursor.execute("FLUSH BINARY LOGS")

    writers = [threading.Thread(target=write, args=[n]) for n in range(4)]
    for each in writers:
        each.start()
    try:
        seen = []
        for _ in range(15):
            with open_cut(database, statement_timeout=60) as cut:
                seen.append((cut.place, sum(rows for rows, _ in cut.digest(LEDGER, row_text(ID), (0, 1)).values())))
    finally:
        stop.set()
        for each in writers:
            each.join()
    # Each insert is one event: as many lie before the place as the snapshot has rows.
    ledger = _events_of_ledger(server)
    assert [(place.text, rows) for place, rows in seen] == [
        (place.text, sum(end <= place for end in ledger)) for place, _ in seen
    ]
    assert len({rows for _, rows in seen}) > 3, "nobody wrote meanwhile"


def _events_of_ledger(server: MySqlServer) -> list[BinlogPosition]:
    """Where each row event behind a table map of the ledger ends."""
    found, is_ledger = [], False
    for file, *_ in server.query("SHOW BINARY LOGS"):
        for name, _, kind, _, end, info in server.query(f"SHOW BINLOG EVENTS IN '{file}'"):
            if kind == "Table_map":
                is_ledger = "cut_.ledger" in info
            elif kind == "Write_rows" and is_ledger:
                found.append(BinlogPosition.of(name, end))
    return found


def test_a_scan_holds_up_no_definition(server: MySqlServer, database: MySqlDatabase) -> None:
    with open_cut(database, statement_timeout=60) as cut:
        cut.digest(WORDS, row_text(*WORD, keys=("w", "n")), (0, 1))
        server.execute("SET SESSION lock_wait_timeout = 2", "ALTER TABLE cut_.words COMMENT 'again'")


def test_keys_in_the_index_own_order_and_by_lookup(database: MySqlDatabase) -> None:
    text = row_text(*WORD, keys=("w", "n"))
    with open_cut(database, statement_timeout=60) as cut:
        assert text.own is not None
        seen, after = [], None
        while True:
            end = cut.range_end(WORDS, text, after, 2)
            seen += [*cut.in_range(WORDS, text, KeyRange(("w", "n"), after, end))]
            if end is None:
                break
            after = end
        assert sorted(seen) == sorted(cut.key_hashes(WORDS, text, range(BUCKETS), (0, 1)))
        assert len(seen) == 6
        asked = {"2:\u017e;1;": ["\u017e", "1"], "3:\u20ac;1;": ["\u20ac", "1"], "1:b;2;": ["b", "2"], "1:B;2;": ["B", "2"]}
        # `b` is `B` to its collation, and no row's key; the sign of the euro is no character of latin2.
        assert cut.present(WORDS, text, asked) == {"2:\u017e;1;", "1:B;2;"}


def test_a_long_statement_gives_an_error_and_holds_no_writer_up(
    server: MySqlServer, database: MySqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql, "_TRIES", 1)
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES cut_.words WRITE")
        with (
            pytest.raises(DatabaseError, match="held up the global read lock each time"),
            open_cut(database, statement_timeout=60),
        ):
            pass
        with server.connect() as other, other.cursor() as writing:
            writing.execute("SET SESSION lock_wait_timeout = 2")
            writing.execute("INSERT INTO cut_.ledger (n) VALUES (99)")
        with suppress(Exception):
            cursor.execute("UNLOCK TABLES")


def test_who_may_not_lock_is_told_what_to_grant(server: MySqlServer, database: MySqlDatabase) -> None:
    for refused, told in (
        (address(server, "poor"), "GRANT RELOAD, REPLICATION CLIENT"),
        (address(server, snapshot_locking="none"), "snapshot_locking is none"),
    ):
        with pytest.raises(CutRefusedError, match=told), open_cut(MySqlDatabase(refused), statement_timeout=60):
            pass
