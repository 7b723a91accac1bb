"""A row read by pages has the text, hash and bucket that the lake gives it; and that MariaDB's own SQL gives it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from cdc_assets.clients.databases.mysql import MySqlConnection
from cdc_assets.clients.databases.row_pages import PagedRows, RowForm, SqlReader
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.live.live_binlog import SECRET
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

UTC, EAST = dt.timezone.utc, dt.timezone(dt.timedelta(hours=2))
# name: (declared type, Spark's, values as a driver gives them, as the lake has them where that is something else)
VALUES: dict[str, tuple[str, str, list[Any], list[Any] | None]] = {
    "id": ("bigint", "bigint", [-(2**63), -5, 0, 2**63 - 1], None),
    "code": ("character varying(9)", "string", ["", "a;b", "ü€\U0001f600", "x "], None),
    "amount": ("numeric(12,2)", "decimal(12,2)", [Decimal("-0.00"), Decimal("1.5"), "-12345678.99", None], None),
    "tiny": (
        "numeric(38,10)",
        "decimal(38,10)",
        [Decimal("1E-10"), Decimal(0), Decimal("-9999999999999999999999999.1"), 7],
        None,
    ),
    "price": ("double precision", "double", [0.1, -0.0, 1e300, float("-inf")], None),
    "weight": ("real", "float", [0.5, -2.0, None, 1e20], None),
    "on": ("boolean", "boolean", [True, False, None, True], None),
    "born": ("date", "date", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(2024, 2, 29)], None),
    "at": (
        "timestamp(6) without time zone",
        "timestamp_ntz",
        [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1, 1, 2, 3, 450000), None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
        None,
    ),
    "seen": (
        "timestamp(6) with time zone",
        "timestamp",
        [dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=EAST), dt.datetime(2024, 1, 1, tzinfo=UTC), None, dt.datetime(1970, 1, 1)],
        None,
    ),
    "alarm": (
        "time(6) without time zone",
        "string",
        [dt.time(1, 2, 3), dt.timedelta(hours=23, microseconds=5), None, dt.time(0)],
        ["01:02:03.000000", "23:00:00.000005", None, "00:00:00.000000"],
    ),
    "count": (
        "bigint unsigned",
        "decimal(20,0)",
        [2**64 - 1, 1, None, 7],
        [Decimal(2**64 - 1), Decimal(1), None, Decimal(7)],
    ),
    "flags": (
        "bit(12)",
        "string",
        [b"\x08\x01", b"\0\0", None, b"\x05"],
        ["100000000001", "000000000000", None, "000000000101"],
    ),
    "raw": ("bytea", "binary", [b"", b"\0\xff", None, bytearray(b"x")], [b"", b"\0\xff", None, b"x"]),
}


def test_python_and_spark_write_the_same(session: SparkSession) -> None:
    for keys in (("id",), ("code", "amount"), ("code",)):
        columns = tuple(Column(name, kind, name not in keys) for name, (kind, *_) in VALUES.items())
        text = RowText(SilverSpec("s", "t", "-", "-", columns, keys))
        form = RowForm(text)
        drivers = {name: values for name, (_, _, values, _) in VALUES.items()}
        rows = [tuple(drivers[c.name][i] for c in form.columns) for i in range(3 if "amount" in keys else 4)]
        lake = [[held or given for held, given in zip(h or [None] * 4, g, strict=True)] for _, _, g, h in VALUES.values()]
        lake[2][2] = Decimal(lake[2][2])
        lake[3][3] = Decimal(lake[3][3])
        schema = ", ".join(f"c{i} {kind}" for i, (_, kind, *_) in enumerate(VALUES.values()))
        frame = session.createDataFrame([tuple(column[i] for column in lake) for i in range(len(rows))], schema)
        found = frame.select(text.row(), text.key(), text.hash(), text.bucket(), sf.lit(1)).collect()
        ours = [
            ("".join(f"{t or ''};" for t in form.texts(row)), form.key(row), form.hash(row), form.bucket(row), 1) for row in rows
        ]
        assert [tuple(row) for row in found] == ours


def test_a_server_is_read_by_pages(mariadb: LiveMariaDb) -> None:
    """MariaDB speaks MySQL's protocol and SQL: its own digest of the same table is the oracle."""
    mariadb.server.execute(
        "CREATE DATABASE IF NOT EXISTS rows_",
        "CREATE TABLE rows_.`o%d` (code varchar(20), n int, amount decimal(12,2), born date, at datetime(6), seen timestamp(3), "
        "raw varbinary(9), dbl double, PRIMARY KEY (code, n))",
        "INSERT INTO rows_.`o%d` SELECT CONCAT('k', seq % 13, 'ü%s'), seq, seq / 7, '2024-01-01' + INTERVAL seq DAY, "
        "'2024-01-01' + INTERVAL seq * 1001 MICROSECOND, '2024-01-01 00:00:00.5' + INTERVAL seq MINUTE, "
        "LEFT(UNHEX(MD5(seq)), 9), seq / 3 FROM rows_.seq_1_to_7000",
    )
    source = mariadb.source(["rows_.o%d"])
    table = TableId("rows_", "o%d")
    types = ("character varying(20)", "integer", "numeric(12,2)", "date", "timestamp(6) without time zone")
    types += ("timestamp(3) with time zone", "bytea", "double precision")
    names = ("code", "n", "amount", "born", "at", "seen", "raw", "dbl")
    keys = ("code", "n")
    declared = RowText(
        SilverSpec("s", "t", "-", "-", tuple(Column(n, t, n not in keys) for n, t in zip(names, types, strict=True)), keys)
    )
    server = MySql(kind="mysql", host="127.0.0.1", port=mariadb.server.port, user="cdc", password={"secret": SECRET})
    with mariadb.database(source) as database:
        rows = PagedRows(SqlReader(MySqlConnection(server.model_copy(update={"sslmode": "disabled"}))))
        catalogue = database.tables([table])[table]
        own = RowText(
            SilverSpec(
                "s",
                "t",
                "-",
                "-",
                tuple(Column(c.name, c.type, c.nullable, c.kind, dialect="mariadb") for c in catalogue.columns),
                keys,
            )
        )
        with open_cut(database, statement_timeout=60) as cut:
            theirs = cut.digest(table, own, (0, 1))
            assert sum(n for n, _ in theirs.values()) == 7000
            assert rows.digest(table, declared, (0, 1)) == theirs
            some = sorted(theirs)[:5]
            hashes = rows.key_hashes(table, declared, some, (0, 1))
            assert hashes == cut.key_hashes(table, own, some, (0, 1))
            asked = [key for key, _ in hashes]
            assert {k: r["amount"] for k, r in rows.texts(table, declared, asked).items()} == {
                k: r["amount"] for k, r in cut.texts(table, own, asked).items()
            }
    assert Table(name="rows_.o%d").id == table
