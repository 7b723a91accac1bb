"""A key's bucket, share and range are the same in the database's SQL and in Spark.

A share is a set of buckets. One round of ranges compares each key exactly once, on both sides, whatever is written meanwhile: the
oracle is the database, which is asked for the keys of each range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sf

from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.proof.key_order import KeyRange
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec
from spark.values.sql_dialects import BUCKETS, SHARES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = {"integer": "int(11)", "bigint": "bigint(20)"}
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


def row_text(dialect: str, types: Sequence[str], charset: str = "") -> RowText:
    """As the catalogue of either database declares them."""
    if dialect == "mariadb":
        declared = [(DECLARED.get(t, t), charset if "char" in t else "") for t in types]
    else:
        declared = [(t.replace("varchar", "character varying"), "") for t in types]
    columns = tuple(Column(f"k{i}", t, False, kind, dialect=dialect) for i, (t, kind) in enumerate(declared))
    return RowText(SilverSpec("s", "t", "none", "none", columns, tuple(c.name for c in columns)))


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
    text = row_text(dialect, types)
    columns = text.spec.columns
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
        share = query(f"SELECT {names} FROM {table} WHERE {text.slice_sql((part, parts))}")
        assert Counter(map(tuple, share)) == Counter(key for key, bucket in asked.items() if bucket % parts == part)
    fullest = frame.groupBy((text.bucket() % sf.lit(SHARES)).alias("s")).count().agg(sf.max("count")).collect()[0][0]
    assert fullest < 4 * len(rows) / SHARES + 9, kind


NUMBERS, LETTERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), "aAbz~ _%'\\;:éßЖ中ﬀ\U0001f600\u0000\t"
WORDS = st.text(LETTERS, max_size=12).map(lambda text: text.replace("\0", "").rstrip(" "))
# MariaDB takes none without version, and sorts version 1 by its time.
UUIDS = st.sampled_from((1, 4)).flatmap(lambda version: st.uuids(version=version)).map(str)
KEYS: dict[str, tuple[tuple[str, ...], st.SearchStrategy[tuple[Any, ...]]]] = {
    "two numbers": (("integer", "bigint"), st.tuples(st.integers(-2, 2) | st.integers(-(2**31), 2**31 - 1), NUMBERS)),
    "uuid": (("uuid",), st.tuples(UUIDS)),
    "text": (("varchar(40)",), st.tuples(WORDS)),
    "mixed": (("varchar(40)", "integer", "uuid"), st.tuples(WORDS, st.integers(-3, 3), UUIDS)),
}
CHARSETS = {"text": "utf8mb4", "mixed": "utf16"}
STEPS = 4


# The mixed key has a text and an UUID as well.
@pytest.mark.parametrize("kind", [k if k in ("two numbers", "mixed") else pytest.param(k, marks=pytest.mark.all) for k in KEYS])
def test_a_round_of_ranges_compares_each_key_once(place: tuple[str, Query], session: SparkSession, kind: str) -> None:
    dialect, query = place
    types, strategy = KEYS[kind]
    charset = CHARSETS.get(kind, "")
    text = row_text(dialect, types, charset)
    order, names = text.order, ", ".join(c.name for c in text.spec.columns)
    assert order is not None
    keys = random_keys(strategy, 600)
    table = f"shares.ranges_{kind.replace(' ', '_')}"
    declared = [t + (f" CHARACTER SET {charset} COLLATE {charset}_bin" if charset and "char" in t else "") for t in types]
    query(f"CREATE TABLE {table} ({', '.join(f'k{i} {t}' for i, t in enumerate(declared if dialect == 'mariadb' else types))})")
    frame, seen, after = ", ".join(f"c{i} {lake(t)}" for i, t in enumerate(types)), Counter[tuple[Any, ...]](), None
    held: list[tuple[Any, ...]] = []
    for step in range(40):
        # The first keys are there throughout, others come between the runs.
        fresh = keys[: len(keys) // 2] if step == 0 else keys[len(keys) // 2 + 25 * step :][:25]
        if fresh:
            insert(query, table, fresh, dialect)
        held += fresh
        rows = session.createDataFrame(held, frame)
        part = KeyRange(order.names, after, order.end(rows, after, 300 // STEPS))
        asked = {tuple(map(plain, row)) for row in query(f"SELECT {names} FROM {table} WHERE {text.slice_sql(part)}")}
        ours = {tuple(row) for row in rows.where(text.within(part)).collect()}
        assert asked == ours, part.text
        seen.update(asked)
        after = part.to
        if after is None:
            break
    assert step >= STEPS - 1
    assert {seen[key] for key in keys[: len(keys) // 2]} == {1}
    assert max(seen.values()) == 1


def random_keys(strategy: st.SearchStrategy[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    """Different ones, always the same of one strategy."""
    found: list[tuple[Any, ...]] = []

    @settings(max_examples=1, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def drawn(data: st.DataObject) -> None:
        found[:] = data.draw(st.lists(strategy, min_size=count, max_size=count, unique=True))

    drawn()
    return found


def insert(query: Query, table: str, rows: Sequence[tuple[Any, ...]], dialect: str) -> None:
    def literal(value: Any) -> str:
        text = str(value).replace("'", "''")
        return f"'{text}'" if dialect == "postgresql" else f"CONVERT(X'{str(value).encode().hex()}' USING utf8mb4)"

    query(f"INSERT INTO {table} VALUES " + ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows))


def plain(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


def lake(kind: str) -> str:
    return kind if kind in ("integer", "bigint") else "string"
