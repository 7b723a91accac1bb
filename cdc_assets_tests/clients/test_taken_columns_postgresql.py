"""PostgreSQL's sums, keys and windows of tables whose columns are called as names of ours: Python is the oracle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.databases.source_cut import SourceCut
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.asked_windows import ask_server
from cdc_assets_tests.support.live.live_source import NAME
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server
from cdc_assets_tests.support.taken_names import check_sums, taken_names, values_of
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec
from spark.table.identifiers import double_quote

pytestmark = pytest.mark.service

PASSWORD = "taken"
NAMES = taken_names()
ROWS = {number * 37 - 200: values_of(number, NAMES) for number in range(60)}
KEYS = [(1, number, 9 - number) for number in range(1, 9)]
AT = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
WINDOWS: dict[str, Any] = {
    **{"name": "hopping", "event_time": "cdc_micros", "size": "1h", "every": "30m", "by": ["back"]},
    "measures": {"n": "count", "total": "sum cdc_back", "last": "max hops", "differing": "distinct _cdc"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("taken"), password=PASSWORD) as found:
        columns = ", ".join(f"{double_quote(name)} integer" for name in NAMES)
        found.run(
            f"CREATE TABLE taken (id integer PRIMARY KEY, {columns})",
            'CREATE TABLE three (a integer, "text of b" integer, b integer, PRIMARY KEY (a, "text of b", b))',
            'CREATE TABLE spaced (" 0" integer, " 1" integer, b integer, PRIMARY KEY (" 0", " 1"))',
            "INSERT INTO spaced SELECT n / 5, n % 5, n FROM generate_series(0, 24) n",
            "CREATE TABLE timed (id integer PRIMARY KEY, cdc_micros timestamptz, back integer, cdc_back integer, hops integer, "
            "_cdc integer)",
            "CREATE TYPE pair AS (e integer, o integer)",
            "CREATE TABLE rows_of (id integer PRIMARY KEY, o pair[], e integer[])",
            "INSERT INTO rows_of VALUES (1, ARRAY[ROW(1, 2), NULL, ROW(NULL, 3)]::pair[], '{7,NULL,8}'), (2, NULL, '{}')",
        )
        with found.connection() as connection, connection.cursor() as cursor:
            places = ", ".join(["%s"] * (1 + len(NAMES)))
            cursor.executemany(f"INSERT INTO taken VALUES ({places})".encode(), [(key, *row) for key, row in ROWS.items()])
            cursor.executemany("INSERT INTO three VALUES (%s, %s, %s)", KEYS)
            timed = [(n, AT + dt.timedelta(minutes=7 * n), n % 3, n, 100 - n, n % 4) for n in range(50)]
            cursor.executemany("INSERT INTO timed VALUES (%s, %s, %s, %s, %s, %s)", timed)
        yield found


def source_of(server: OwnServer, *tables: dict[str, Any]) -> Source:
    place = {"host": "127.0.0.1", "port": server.postgres.site.ports["postgres"], "dbname": NAME, "user": NAME}
    database = {"kind": "postgresql", **place, "password": {"secret": "taken"}}
    return Source.model_validate({"source": "taken", "database": database, "tables": list(tables)})


@contextmanager
def cut_of(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceCut]:
    monkeypatch.setenv("CDC_SECRET_TAKEN", PASSWORD)
    database = PostgresDatabase(source_of(server, {"name": "public.taken"}).database)  # type: ignore[arg-type]
    with open_cut(database, statement_timeout=60) as cut:
        yield cut


def text_of(table: str, names: list[str], keys: tuple[str, ...]) -> RowText:
    return RowText(SilverSpec("taken", table, "-", "-", tuple(Column(n, "integer", n not in keys) for n in names), keys))


def test_sums_are_those_of_the_rows(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("public", "taken"), text_of("taken", ["id", *NAMES], ("id",))
    with cut_of(server, monkeypatch) as cut:
        check_sums(cut, table, text, ROWS, NAMES)


def test_a_range_ends_by_the_order_of_the_key(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("public", "three"), text_of("three", ["a", "text of b", "b"], ("a", "text of b", "b"))
    with cut_of(server, monkeypatch) as cut:
        ends = [cut.range_end(table, text, None, count) for count in range(1, 9)]
    assert ends == [*(tuple(map(str, key)) for key in KEYS[:7]), None]


def test_keys_are_looked_up_whatever_they_are_called(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table, text = TableId("public", "spaced"), text_of("spaced", [" 0", " 1", "b"], (" 0", " 1"))
    asked = {f"{a};{b};": (str(a), str(b)) for a, b in ((0, 0), (4, 4), (5, 0), (0, 5), (2, 3))}
    with cut_of(server, monkeypatch) as cut:
        assert cut.present(table, text, asked) == {"0;0;", "4;4;", "2;3;"}


def test_arrays_of_rows_are_written_whatever_they_are_called(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their elements: a column in an array's statement may be called as the element, or its place."""
    columns = (
        Column("id", "integer", False),
        Column("o", "pair[]", kind="composite"),
        Column("e", "integer[]"),
    )
    table, text = TableId("public", "rows_of"), RowText(SilverSpec("taken", "rows_of", "-", "-", columns, ("id",)))
    assert {"o", "e"} <= {*text.forms}
    with cut_of(server, monkeypatch) as cut:
        shown = cut.texts(table, text, ["1;", "2;"])
    assert (shown["2;"]["o"], str(shown["1;"]["e"]).count("7"), str(shown["1;"]["o"]).count("(")) == (None, 1, 2)


def test_windows_of_columns_that_are_called_as_ours(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_TAKEN", PASSWORD)
    groups: dict[tuple[int, int], list[int]] = {}
    for number in range(50):
        micros = (AT + dt.timedelta(minutes=7 * number) - EPOCH) // dt.timedelta(microseconds=1)
        newest = micros // 1_800_000_000 * 1_800_000_000
        for start in (newest, newest - 1_800_000_000):
            groups.setdefault((number % 3, start), []).append(number)
    expected = {key: (len(n), sum(n), 100 - min(n), len({each % 4 for each in n})) for key, n in groups.items()}
    assert ask_server(source_of(server, {"name": "public.timed", "windows": [WINDOWS]})) == expected
