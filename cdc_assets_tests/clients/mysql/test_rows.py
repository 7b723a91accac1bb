"""Rows of a real MySQL by pages and by keys, in collations and character sets of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.clients.databases import row_pages
from cdc_assets.clients.databases.mysql import MySqlConnection
from cdc_assets.clients.databases.row_pages import SqlReader
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server
from spark.specs import Column

pytestmark = pytest.mark.all

TABLE = TableId("rows_", "o%d")
COLUMNS = (Column("code", "character varying(9)", False), Column("n", "bigint unsigned", False), Column("f", "real"))
ROWS = [
    ("ž", 2**64 - 1, 0.1),
    ("a", 2, 16777216.0),
    ("B", 1, None),
    ("A;", 3, 1.5),
    ("a", 10, -2.0),
    ("%s", 2, 0.5),
    ("", 0, 0.0),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with mysql_server(tmp_path_factory.mktemp("mysql")) as found:
        charset = "CHARACTER SET latin2 COLLATE latin2_general_ci"
        found.execute(
            "CREATE DATABASE rows_",
            f"CREATE TABLE rows_.`o%d` (code varchar(9) {charset}, n bigint unsigned, f float, PRIMARY KEY (code, n))",
        )
        with found.connect() as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO rows_.`o%%d` VALUES (%s, %s, %s)", ROWS)
        yield found


@pytest.fixture
def reader(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> SqlReader:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    address = MySql(kind="mysql", host="127.0.0.1", port=server.port, user="cdc", password={"secret": "shop"})
    return SqlReader(MySqlConnection(address))


@pytest.mark.parametrize("page", [1, 2, 7, 100])
def test_pages_have_every_row_once(monkeypatch: pytest.MonkeyPatch, reader: SqlReader, page: int) -> None:
    monkeypatch.setattr(row_pages, "PAGE", page)
    found = [row for rows in reader.pages(TABLE, COLUMNS, 2) for row in rows]
    assert sorted((code, n) for code, n, _ in found) == sorted((code, n) for code, n, _ in ROWS)
    # Six digits, as MySQL writes a FLOAT by itself, would be 16777200.
    assert {round(f, 6) for *_, f in found if f} == {0.1, 16777216.0, 1.5, -2.0, 0.5}


def test_a_key_that_the_character_set_does_not_have_is_no_rows_key(server: MySqlServer, reader: SqlReader) -> None:
    """MySQL refuses to compare with it ("Cannot convert string"): the others are asked for all the same."""
    with pytest.raises(Exception, match="Cannot convert string"):
        server.query("SELECT 1 FROM rows_.`o%d` WHERE code = '\N{EURO SIGN}'")
    found = reader.rows_of(TABLE, COLUMNS, [("\N{EURO SIGN}", 2), ("ž", 2**64 - 1), ("\N{REPLACEMENT CHARACTER}", 1), ("a", 2)])
    assert sorted(row[:2] for row in found) == [("a", 2), ("ž", 2**64 - 1)]
    with pytest.raises(DatabaseError, match=r"Table 'rows_\.nothing' doesn't exist"):
        reader.rows_of(TableId("rows_", "nothing"), COLUMNS, [("a", 2)])
