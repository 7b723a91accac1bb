"""Rows of databases that are read by pages: each kind's statements, and the log's marker.

No server of these kinds is started: their statements are answered by SQLite, which has the same identifiers' quotes and
comparisons, after the words that only one kind has (TOP, FETCH FIRST, places of values) have been put into SQLite's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.named_log_position import mark
from cdc_assets.clients.databases import row_pages
from cdc_assets.clients.databases.row_pages import PagedRows, RowForm, SqlReader, parse_key, writer
from cdc_assets.clients.kind_clients import open_reader
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.row_servers import EVERY, ROWS, SERVERS, InSqlite, source_of
from spark.errors import JobRefusedError
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec
from spark.values.sql_dialects import Dialect, MySqlDialect

TABLE = TableId("shop", "line item")
TYPES = {"code": "text", "line": "integer", "note": "text"}
TEXT = RowText(SilverSpec("s", "t", "-", "-", tuple(Column(n, t, n == "note") for n, t in TYPES.items()), ("code", "line")))


@pytest.mark.parametrize("dialect", EVERY, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("page", [1, 7, 60, 100])
def test_pages_have_every_row_once(monkeypatch: pytest.MonkeyPatch, dialect: Dialect, page: int) -> None:
    monkeypatch.setattr(row_pages, "PAGE", page)
    server = InSqlite(dialect)
    reader = SqlReader(server)
    pages = list(reader.pages(TABLE, TEXT.spec.columns, 2))
    assert sorted((row for rows in pages for row in rows), key=str) == sorted(ROWS, key=str)
    assert max(map(len, pages)) <= page
    assert sorted(reader.rows_of(TABLE, TEXT.spec.columns, [ROWS[3][:2], ROWS[41][:2], ("none", 1)]), key=str) == sorted(
        [ROWS[3], ROWS[41]], key=str
    )
    reader.mark(TableId("shop", "marker"), "m1")
    reader.mark(TableId("shop", "marker"), "m2")
    assert server.database.execute("SELECT id FROM shop.marker").fetchall() == [("m2",)]


def test_the_statements_of_each_kind() -> None:
    columns = (Column("a]`%", "integer", False), Column("b", "timestamp with time zone", False))
    mysql, server, oracle = EVERY
    assert (
        mysql.page(TABLE, columns, 1, rows=9, first=True)
        == "SELECT `a]``%%`, `b` FROM `shop`.`line item` ORDER BY `a]``%%` LIMIT 9"
    )
    with pytest.raises(JobRefusedError, match="percent sign"):
        server.page(TABLE, columns, 1, rows=5000, first=True)
    assert server.rows_of(TABLE, columns[1:], 1, 2) == "SELECT [b] FROM [shop].[line item] WHERE ([b] = %s) OR ([b] = %s)"
    assert oracle.page(TABLE, columns, 2, rows=5000, first=False) == (
        'SELECT "a]`%", SYS_EXTRACT_UTC("b") FROM "shop"."line item" WHERE ("a]`%" > :1) OR ("a]`%" = :2 AND "b" > :3) '
        'ORDER BY "a]`%", "b" FETCH FIRST 5000 ROWS ONLY'
    )
    with pytest.raises(JobRefusedError, match="double quote"):
        oracle.quote('x"y')


def test_sums_keys_and_rows_agree_with_each_other() -> None:
    rows = PagedRows(SqlReader(InSqlite(EVERY[0])))
    whole = rows.digest(TABLE, TEXT, (0, 1))
    hashes = rows.key_hashes(TABLE, TEXT, [*whole], (0, 1))
    assert sum(n for n, _ in whole.values()) == len(ROWS) == len(hashes)
    assert sum(total for _, total in whole.values()) == sum(value for _, value in hashes)
    shares = [rows.digest(TABLE, TEXT, (part, 3)) for part in range(3)]
    assert {bucket: found for share in shares for bucket, found in share.items()} == whole
    assert sum(map(len, shares)) == len(whole)
    key = "3:c'5;4;"
    assert (key, parse_key(key, ["text", "integer"])) in {(k, (k[2:5], 4)) for k, _ in hashes}
    assert set(rows.texts(TABLE, TEXT, [key, "4:none;1;"])) == {key}


@pytest.mark.parametrize(("kind", "driver"), [("sqlserver", "pytds"), ("oracle", "oracledb"), ("mongodb", "pymongo")])
def test_a_missing_driver_is_named_with_its_group(monkeypatch: pytest.MonkeyPatch, kind: str, driver: str) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    package = "python-tds" if driver == "pytds" else driver
    with pytest.raises(DatabaseError, match=f"{package}.*uv sync --inexact --only-group databases"):
        list(open_reader(source_of(kind).database).pages(TableId("shop", "orders"), TEXT.spec.columns, 1))


def test_without_a_marker_table_nothing_is_compared() -> None:
    source = source_of("oracle")
    (result,) = compare_rows(Chain(Platform(), source), source.tables).values()
    assert (result.verdict, result.method) == ("inconclusive", "two-step")
    assert "declares no marker table" in result.reason


@pytest.mark.parametrize("kind", SERVERS)
def test_the_marker_table_is_captured(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    plain, marked = (capture_config(source_of(kind, **more)) for more in ({}, {"reconciliation": {"marker": "ours.marker"}}))
    listed = "collection.include.list" if kind == "mongodb" else "table.include.list"
    assert marked[listed] == plain[listed] + (r",(?-i:ours\.marker)" if kind == "mysql" else r",ours\.marker")
    assert marked.get("database.include.list") in (None, "shop,ours", "(?-i:shop),(?-i:ours)")


def test_a_database_that_tells_its_place_takes_no_marker_table() -> None:
    database = {"kind": "mariadb", "host": "db", "user": "cdc", "password": {"secret": "erp"}}
    declared = {"source": "erp", "database": database, "tables": [{"name": "shop.orders"}]}
    with pytest.raises(ValueError, match="no table is needed"):
        Source.model_validate({**declared, "reconciliation": {"marker": "shop.marker"}})


class Core:
    """The marker's topic, to which a record comes when the row has been written and somebody has looked twice."""

    def __init__(self) -> None:
        self.written: str | None = None
        self.looks = 0

    def states(self, topics: Sequence[str]) -> dict[str, Any]:
        self.looks += 1
        return {topics[0]: SimpleNamespace(ends={0: 5 if self.written is None or self.looks < 3 else 6})}

    def records(self, topic: str, ranges: dict[int, tuple[int, int]]) -> list[Any]:
        value = f'{{"after": {{"id": "{self.written}"}}}}'.encode()
        return [SimpleNamespace(partition=0, offset=5, value=value)] if ranges[0] == (5, 6) else []


def test_the_marker_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_assets.capture.named_log_position._ROW_POLL_SECONDS", 0.0)
    core, table = Core(), TableId("ours", "marker")
    reader = SimpleNamespace(mark=lambda table, marker: setattr(core, "written", marker))
    asked = cast(Any, (core, source_of("mysql"), reader, table))
    assert mark(*asked, "position-1", float("inf")) == "erp.ours.marker 0:5"
    named = cast(Any, (Core(), source_of("sqlserver"), SimpleNamespace(mark=lambda table, marker: None), table))
    with pytest.raises(CaughtUpTimeoutError, match=r"in topic erp\.shop\.ours\.marker;"):
        mark(*named, "position-1", 0.0)
    other = cast(Any, (Core(), source_of("mysql"), SimpleNamespace(mark=lambda table, marker: None), table))
    with pytest.raises(CaughtUpTimeoutError, match=r"ours.marker did not arrive in topic erp.ours.marker"):
        mark(*other, "position-1", 0.0)


def test_types_without_a_text_are_not_written() -> None:
    assert [writer(t) is None for t in ("jsonb", "interval", "numeric", "numeric(40,2)", "text[]", "numeric(5,2)")] == [
        *[True] * 5,
        False,
    ]
    with pytest.raises(DatabaseError, match="more than the declared 1 digit after"):
        (writer("numeric(5,1)") or str)("1.25")
    with pytest.raises(DatabaseError, match="is dict in the database"):
        (writer("text") or str)({})


@pytest.mark.parametrize(
    ("source_type", "value", "text"),
    [
        ("time(6) without time zone", timedelta(hours=-838, minutes=-59, seconds=-59), "-838:59:59.000000"),
        ("time(6) without time zone", timedelta(days=4, microseconds=500_000), "96:00:00.500000"),
        ("bigint", timedelta(microseconds=-1), "-1"),
        ("bigint", timedelta(hours=838, minutes=59, seconds=59), "3020399000000"),
        ("date", "0000-00-00", "0000-00-00"),
        ("timestamp(6) without time zone", "2024-00-10 00:00:00.100000", "2024-00-10 00:00:00.1"),
        ("timestamp(0) with time zone", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("bit(12)", b"\x08\x01", "100000000001"),
        ("bit(12)", b"\x00\x00", "000000000000"),
        ("bit", b"\x01", "true"),
        ("bit(1)", b"\x00", "false"),
    ],
)
def test_what_mysqls_driver_gives(source_type: str, value: Any, text: str) -> None:
    """As PyMySQL gave it of a MySQL 9.7.4: what no calendar has comes as a text, TIME as a length of time."""
    write = writer(source_type)
    assert write is not None
    assert write(value) == text


def test_a_value_that_is_not_what_was_declared_is_told_with_its_column() -> None:
    text = RowText(SilverSpec("s", "t", "-", "-", (Column("id", "integer", False), Column("born", "date")), ("id",)))
    with pytest.raises(DatabaseError, match="column born is declared as date, and the database has a int that is none"):
        RowForm(text).texts((1, 5))
    with pytest.raises(DatabaseError, match="4 bits are more than the declared 3"):
        (writer("bit(3)") or str)(b"\x08")
    with pytest.raises(DatabaseError, match="the key 0000-00-00; cannot be asked for again"):
        parse_key("0000-00-00;", ["date"])


@pytest.mark.parametrize("value", ["secret", Decimal("Infinity"), Decimal("NaN"), Decimal("77123.456"), Decimal("1e99999"), True])
def test_what_is_no_such_number_is_told_without_its_value(value: Any) -> None:
    """A document may hold anything; the column may be sensitive, and what is told is kept with the check."""
    text = RowText(SilverSpec("s", "t", "-", "-", (Column("id", "integer", False), Column("pay", "numeric(9,2)")), ("id",)))
    with pytest.raises(DatabaseError, match="column pay") as told:
        RowForm(text).texts((1, value))
    assert not [part for part in ("secret", "77123", "456", "99999") if part in str(told.value)]


def test_a_nan_is_one_value() -> None:
    assert {(writer("double precision") or str)(v) for v in (float("nan"), -float("nan"))} == {"7FF8000000000000"}
    assert {(writer("real") or str)(v) for v in (float("nan"), -float("nan"))} == {"7FC00000"}
    assert (writer("double precision") or str)(-0.0) == "8000000000000000"


def test_mysql_writes_a_float_with_all_its_digits() -> None:
    query = MySqlDialect().page(TABLE, [Column("id", "integer", False), Column("f", "real")], 1, rows=5000, first=True)
    assert query.startswith("SELECT `id`, `f` + 0e0 FROM `shop`.`line item` ORDER BY `id`")


def test_zeros_of_a_key_are_one_key_whatever_their_sign() -> None:
    """Silver has one of them for both, and a database calls them equal; elsewhere in a row they are two values."""
    columns = (Column("ratio", "double precision", False), Column("v", "double precision"))
    form = RowForm(RowText(SilverSpec("s", "t", "-", "-", columns, ("ratio",))))
    assert (form.key((-0.0, 1.0)), form.bucket((-0.0, 1.0))) == (form.key((0.0, 1.0)), form.bucket((0.0, 1.0)))
    assert form.texts((-0.0, -0.0)) == ["0" * 16, "8" + "0" * 15]
    assert form.texts((-1.5, None)) == ["BFF8000000000000", None]
