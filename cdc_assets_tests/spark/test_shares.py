"""A key's bucket and share are the same in the database's SQL and in Spark, and a share is a set of buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from cdc_assets_tests.live_mariadb import LiveMariaDb
from cdc_assets_tests.live_source import LiveSource
from spark.reconcile.dialect import BUCKETS, SHARES
from spark.reconcile.row_text import RowText
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Query = Callable[[str], Sequence[Sequence[Any]]]
EDGES = (-(2**63), -(2**31), -128, -127, -1, 0, 1, 126, 127, 1142, 1143, 2**31 - 1, 2**63 - 1)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def place(request: pytest.FixtureRequest) -> tuple[str, Query]:
    if request.param == "mariadb":
        maria: LiveMariaDb = request.getfixturevalue("mariadb")
        maria.server.execute("CREATE DATABASE IF NOT EXISTS shares")
        return (
            request.param,
            lambda text: maria.server.query(text) if text.startswith("SELECT") else maria.server.execute(text) or [],
        )
    live: LiveSource = request.getfixturevalue("live")

    def query(text: str) -> Sequence[Sequence[Any]]:
        with live.connection() as connection:
            found = connection.execute(text.encode())
            return found.fetchall() if found.description else []

    query("CREATE SCHEMA IF NOT EXISTS shares")
    return request.param, query


@pytest.mark.parametrize(
    ("kind", "types", "rows"),
    [
        ("one number", ("bigint",), [(n,) for n in {*EDGES, *range(-1300, 1300)}]),
        ("two numbers", ("integer", "bigint"), [(a, b) for a in (-7, 0, 2**31 - 1) for b in {*EDGES, *range(-99, 99)}]),
        (
            "uuid",
            ("uuid",),
            [(f"{i * 2654435761 % 2**32:08x}-{i * 7919 % 65536:04x}-1000-8000-000000000000",) for i in range(1500)],
        ),
    ],
)
def test_the_database_and_spark_agree(
    place: tuple[str, Query], session: SparkSession, kind: str, types: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    dialect, query = place
    declared = {"integer": "int(11)", "bigint": "bigint(20)"} if dialect == "mariadb" else {}
    columns = tuple(Column(f"k{i}", declared.get(t, t), False, dialect=dialect) for i, t in enumerate(types))
    text = RowText(SilverSpec("s", "t", "none", "none", columns, tuple(c.name for c in columns)))
    table = f"shares.t{len(types)}{types[0]}"
    query(f"CREATE TABLE {table} ({', '.join(f'{c.name} {t}' for c, t in zip(columns, types, strict=True))})")
    query(f"INSERT INTO {table} VALUES " + ", ".join("(" + ", ".join(f"'{v}'" for v in row) + ")" for row in rows))
    names = ", ".join(c.name for c in columns)
    asked = {tuple(row[:-1]): int(row[-1]) for row in query(f"SELECT {names}, {text.bucket_sql()} FROM {table}")}
    frame = session.createDataFrame(rows, ", ".join(f"c{i} {'string' if t == 'uuid' else t}" for i, t in enumerate(types)))
    held = {tuple(row[:-1]): row[-1] for row in frame.select("*", text.bucket().alias("b")).collect()}
    assert {tuple(map(str, key)): bucket for key, bucket in asked.items()} == {
        tuple(map(str, key)): bucket for key, bucket in held.items()
    }
    assert len(asked) == len(rows)
    assert min(asked.values()) >= 0
    assert max(asked.values()) < BUCKETS
    for part, parts in ((0, SHARES), (3, SHARES), (SHARES - 1, SHARES), (5, 8)):
        share = query(f"SELECT {names} FROM {table}{text.share_sql((part, parts))}")
        assert Counter(map(tuple, share)) == Counter(key for key, bucket in asked.items() if bucket % parts == part)
    fullest = frame.groupBy((text.bucket() % sf.lit(SHARES)).alias("s")).count().agg(sf.max("count")).collect()[0][0]
    assert fullest < 4 * len(rows) / SHARES + 9, kind
