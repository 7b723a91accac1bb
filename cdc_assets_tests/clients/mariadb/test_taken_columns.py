"""MariaDB's sums, keys and windows of tables whose columns are called as names of ours: Python is the oracle.

A server takes a name in GROUP BY for that of the table's column, and one in ORDER BY for that of what is selected.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.asked_windows import ask_server
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, MariaDbServer, mariadb_server
from cdc_assets_tests.support.taken_names import check_sums, hash_of, taken_names, values_of
from spark.proof.row_text import WHOLE, RowText
from spark.specs import Column, SilverSpec
from spark.table.identifiers import quote

pytestmark = pytest.mark.service

NAMES = taken_names()
ROWS = {number * 37 - 200: values_of(number, NAMES) for number in range(60)}
# By the key: (1, 1, 9), (1, 2, 8), (1, 3, 7), … By the texts of what is selected it would be the other way around.
KEYS = [(1, number, 9 - number) for number in range(1, 9)]
AT = dt.datetime(2026, 1, 1)
WINDOWS: dict[str, Any] = {
    **{"name": "hopping", "event_time": "cdc_micros", "size": "1h", "every": "30m", "by": ["cdc_back"]},
    "measures": {"n": "count", "total": "sum back", "last": "max hops", "differing": "distinct _cdc"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with mariadb_server(tmp_path_factory.mktemp("mariadb")) as found:
        columns = ", ".join(f"{quote(name)} int" for name in NAMES)
        times = "id int PRIMARY KEY, cdc_micros datetime(6), cdc_back int, back int, hops int, _cdc int"
        found.execute(
            "CREATE DATABASE shop",
            f"CREATE TABLE shop.taken (id int PRIMARY KEY, {columns})",
            "CREATE TABLE shop.three (a int, `text of b` int, b int, PRIMARY KEY (a, `text of b`, b))",
            f"CREATE TABLE shop.timed ({times})",
        )
        with found.connect() as connection, connection.cursor() as cursor:
            places = ", ".join(["%s"] * (1 + len(NAMES)))
            cursor.executemany(f"INSERT INTO shop.taken VALUES ({places})", [(key, *row) for key, row in ROWS.items()])
            cursor.executemany("INSERT INTO shop.three VALUES (%s, %s, %s)", KEYS)
            timed = [(n, AT + dt.timedelta(minutes=7 * n), n % 3, n, 100 - n, n % 4) for n in range(50)]
            cursor.executemany("INSERT INTO shop.timed VALUES (%s, %s, %s, %s, %s, %s)", timed)
        yield found


def source_of(server: MariaDbServer, *tables: dict[str, Any]) -> Source:
    database = {"kind": "mariadb", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "shop"}}
    return Source.model_validate({"source": "shop", "database": database, "tables": list(tables)})


@contextmanager
def cut_of(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceCut]:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    database = MariaDbDatabase(source_of(server, {"name": "shop.taken"}).database)  # type: ignore[arg-type]
    with open_cut(database, statement_timeout=60) as cut:
        yield cut


def text_of(table: str, names: list[str], keys: tuple[str, ...]) -> RowText:
    columns = tuple(Column(name, "int(11)", name not in keys, dialect="mariadb") for name in names)
    return RowText(SilverSpec("shop", table, "-", "-", columns, keys))


def test_sums_are_those_of_the_rows(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("shop", "taken"), text_of("taken", ["id", *NAMES], ("id",))
    with cut_of(server, monkeypatch) as cut:
        check_sums(cut, table, text, ROWS, NAMES)


@pytest.mark.parametrize("name", ["b", "gone", "bucket", "COUNT(*)", "hash"])
def test_sums_of_a_table_with_one_such_column(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Six rows of three groups by the column, and of six by their buckets."""
    server.execute("DROP TABLE IF EXISTS shop.six", f"CREATE TABLE shop.six (id int PRIMARY KEY, {quote(name)} int)")
    server.execute("INSERT INTO shop.six SELECT seq, seq % 3 FROM shop.seq_1_to_6")
    with cut_of(server, monkeypatch) as cut:
        found = cut.digest(TableId("shop", "six"), text_of("six", ["id", name], ("id",)), WHOLE)
    assert found == {key: (1, hash_of([key, key % 3])) for key in range(1, 7)}


def test_a_range_ends_by_the_order_of_the_key(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("shop", "three"), text_of("three", ["a", "text of b", "b"], ("a", "text of b", "b"))
    with cut_of(server, monkeypatch) as cut:
        ends = [cut.range_end(table, text, None, count) for count in range(1, 9)]
        after = cut.range_end(table, text, ("1", "2", "7"), 3)
    assert ends == [*(tuple(map(str, key)) for key in KEYS[:7]), None]
    assert after == tuple(map(str, KEYS[4]))


def test_windows_of_columns_that_are_called_as_ours(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    groups: dict[tuple[int, int], list[int]] = {}
    for number in range(50):
        micros = (AT + dt.timedelta(minutes=7 * number) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        newest = micros // 1_800_000_000 * 1_800_000_000
        for start in (newest, newest - 1_800_000_000):
            groups.setdefault((number % 3, start), []).append(number)
    expected = {key: (len(n), sum(n), 100 - min(n), len({each % 4 for each in n})) for key, n in groups.items()}
    assert ask_server(source_of(server, {"name": "shop.timed", "windows": [WINDOWS]})) == expected
