"""MySQL's sums and keys of tables whose columns are called as names of ours: Python is the oracle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server
from cdc_assets_tests.support.taken_names import taken_names, values_of
from spark.proof.row_text import WHOLE, RowText
from spark.specs import Column, SilverSpec
from spark.table.identifiers import quote
from spark.values.sql_dialects import BUCKETS

pytestmark = pytest.mark.all

NAMES = taken_names()
ROWS = {number * 37 - 200: values_of(number, NAMES) for number in range(60)}
KEYS = [(1, number, 9 - number) for number in range(1, 9)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with mysql_server(tmp_path_factory.mktemp("mysql")) as found:
        columns = ", ".join(f"{quote(name)} int" for name in NAMES)
        found.execute(
            "CREATE DATABASE shop",
            f"CREATE TABLE shop.taken (id int PRIMARY KEY, {columns})",
            "CREATE TABLE shop.three (a int, `text of b` int, b int, PRIMARY KEY (a, `text of b`, b))",
        )
        with found.connect() as connection, connection.cursor() as cursor:
            places = ", ".join(["%s"] * (1 + len(NAMES)))
            cursor.executemany(f"INSERT INTO shop.taken VALUES ({places})", [(key, *row) for key, row in ROWS.items()])
            cursor.executemany("INSERT INTO shop.three VALUES (%s, %s, %s)", KEYS)
        yield found


@contextmanager
def cut_of(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceCut]:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    place = MySql(kind="mysql", host="127.0.0.1", port=server.port, user="cdc", password={"secret": "shop"})  # type: ignore[arg-type]
    with open_cut(MySqlDatabase(place), statement_timeout=60) as cut:
        yield cut


def text_of(table: str, names: list[str], keys: tuple[str, ...]) -> RowText:
    columns = tuple(Column(name, "integer", name not in keys, dialect="mysql") for name in names)
    return RowText(SilverSpec("shop", table, "-", "-", columns, keys))


def test_sums_are_those_of_the_rows(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for key, row in ROWS.items():
        count, total = expected.get(abs(key) % BUCKETS, (0, 0))
        text = "".join(f"{value};" for value in (key, *row))
        hash_ = int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
        expected[abs(key) % BUCKETS] = count + 1, total + hash_
    table, row_text = TableId("shop", "taken"), text_of("taken", ["id", *NAMES], ("id",))
    with cut_of(server, monkeypatch) as cut:
        assert cut.digest(table, row_text, WHOLE) == expected
        assert cut.count(table, row_text, WHOLE) == len(ROWS)


def test_a_range_ends_by_the_order_of_the_key(server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("shop", "three"), text_of("three", ["a", "text of b", "b"], ("a", "text of b", "b"))
    with cut_of(server, monkeypatch) as cut:
        ends = [cut.range_end(table, text, None, count) for count in range(1, 9)]
    assert ends == [*(tuple(map(str, key)) for key in KEYS[:7]), None]
