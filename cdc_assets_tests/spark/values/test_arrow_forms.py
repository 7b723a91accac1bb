"""Each leaf read twice, by Spark's conversion and by Arrow's: the same value, or Arrow leaves it to Spark."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets_tests.support.values.conversions import converted_leaves
from cdc_assets_tests.support.values.debezium_forms import REFUSED, SENT, typed
from spark.errors import LeftToSparkError
from spark.events.arrow_records import parse_objects
from spark.specs import Column
from spark.values.arrow_forms import arrow_form
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARIADB: list[tuple[str, Any]] = [
    *[("tinyint(1)", n) for n in (0, -128, 127)],
    *[("int unsigned", n) for n in (0, 4294967295)],
    *[("bigint(20) unsigned", text) for text in ("AP//////////", "AA==", "/w==", "")],
    *[("decimal(10,2)", text) for text in ("1.10", "-0.01", "1.234")],
    *[("datetime(6)", n) for n in (0, 1709210096123456, -62135596800000001)],
    *[("datetime", n) for n in (1709210096123, 253402300800000)],
    *[("timestamp", text) for text in ("2024-02-29T07:34:56Z", "1970-01-01T00:00:00Z")],
    *[("time(6)", n) for n in (-3020399000000, 1, 3020399999999, 3020400000000)],
    *[("year(4)", n) for n in (1900, 1901, 2155)],
    *[("uuid", text) for text in ("7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11", "007f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11")],
    *[("varbinary(8)", text) for text in ("AP8Q", "")],
    *[("bit(10)", text) for text in ("BQA=", "AAI=", "")],
    *[("set('a','b')", text) for text in ("a,b", "")],
]
GEOMETRIC: list[tuple[str, Any]] = [
    *[("point", {"x": x, "y": -0.0, "wkb": "AQ==", "srid": None}) for x in (0.1, 5, -1.5e-300)],
    *[("point", each) for each in ({"x": 1.0}, {"x": 1.0, "y": None}, {"x": "NaN", "y": 1.0}, {"x": 1e308, "y": "1"}, None)],
    *[("line", each) for each in ({"a": 1.0, "b": 2, "c": -3.25}, {"a": 1.0, "b": 2.0})],
    *[("circle", {"center": center, "radius": 2.5}) for center in ({"x": 1.0, "y": 2.0}, {"x": 1.0}, None)],
]
READ_BY_ARROW = {
    *("boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric(10,2)", "numeric", "character(5)", "text"),
    *("jsonb", "uuid", "public.mood", "interval", "date", "timestamp without time zone", "timestamp with time zone", "bytea"),
    *("time without time zone", "bit(1)", "integer[]", "text[]", "numeric(8,2)[]", "boolean[]"),
}


def by_arrow(column: Column, leaf: Any) -> Any:
    """The value; raises where Arrow leaves it."""
    kind = lake_type(column)
    form = arrow_form(kind.form, kind.name) if kind.form else None
    if form is None:
        raise LeftToSparkError(column.source_type)
    document = json.dumps({"v": leaf}).encode()
    found = parse_objects(pa.chunked_array([[document]], pa.binary()), pa.schema([("v", form.leaf)]))
    return form.convert(found["v"].combine_chunks()).to_pylist()[0]


def test_documents_in_chunks_and_slices_are_read_as_they_stand() -> None:
    def found(*chunks: list[bytes]) -> list[int]:
        texts = pa.chunked_array([*chunks], pa.binary()).slice(1)
        return parse_objects(texts, pa.schema([("v", pa.int64())]))["v"].to_pylist()

    one, two, three = (f'{{"v":{number}, "w":"{"x" * 40 * number}"}}'.encode() for number in (1, 2, 3))
    assert found([one, two, three]) == found([one, two], [], [three]) == found([one], [two, three]) == [2, 3]
    assert found([one]) == []
    for document in (b'{"v":1} {"v":2}', b'{"v":', b'{"v":1}\n{"v":2}', b"null", b""):
        with pytest.raises(LeftToSparkError):
            found([one, two, document])


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def compare(session: SparkSession, columns: list[Column], leaves: list[Any]) -> set[str]:
    """Assert that no leaf has two values; the source types that Arrow has read."""
    kinds = {f"c{n}": column for n, column in enumerate(columns)}
    spark = {n: value for n, _, value in converted_leaves(session, kinds, [(n, f"c{n}", leaf) for n, leaf in enumerate(leaves)])}
    read = set()
    for number, (column, leaf) in enumerate(zip(columns, leaves, strict=True)):
        try:
            found = by_arrow(column, leaf)
        except (LeftToSparkError, pa.ArrowInvalid):
            continue
        expected = spark[number]
        expected = expected.astimezone(found.tzinfo) if getattr(found, "tzinfo", None) and expected is not None else expected
        assert same(found, expected), f"{column.source_type}: {leaf!r} is {expected!r} by Spark and {found!r} by Arrow"
        read.add(column.source_type)
    return read


def test_the_forms_that_debezium_sends(session: SparkSession) -> None:
    pairs = [(kind, sent) for kind, sent, _ in SENT] + REFUSED
    read = compare(session, [typed("v", kind) for kind, _ in pairs], [sent for _, sent in pairs])
    assert read >= READ_BY_ARROW


def test_what_does_not_fit_is_left_to_spark() -> None:
    for kind, sent in REFUSED:
        with pytest.raises((LeftToSparkError, pa.ArrowInvalid)):
            by_arrow(typed("v", kind), sent)


def test_the_forms_of_places(session: SparkSession) -> None:
    read = compare(session, [Column("v", kind) for kind, _ in GEOMETRIC], [sent for _, sent in GEOMETRIC])
    assert read == {"point", "line", "circle"}


def test_the_forms_of_mariadb(session: SparkSession) -> None:
    modes = "temporal=adaptive_time_microseconds"
    columns = [Column("v", kind, dialect="mariadb", modes=modes, accepted=False) for kind, _ in MARIADB]
    read = compare(session, columns, [sent for _, sent in MARIADB])
    assert read == {kind for kind, _ in MARIADB}


@settings(max_examples=3, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("integer"), st.integers(-(2**33), 2**33)),
            st.tuples(st.just("bigint"), st.integers(-(2**65), 2**65)),
            st.tuples(st.just("double precision"), st.floats(allow_nan=False, allow_infinity=False)),
            st.tuples(st.just("real"), st.floats(width=32, allow_nan=False, allow_infinity=False)),
            st.tuples(st.just("text"), st.text(max_size=12)),
            st.tuples(st.just("numeric(12,4)"), st.decimals(allow_nan=False, allow_infinity=False, places=5).map(str)),
            st.tuples(st.just("date"), st.integers(-800_000, 3_000_000)),
            st.tuples(st.just("timestamp without time zone"), st.integers(-(2**62), 2**62)),
            st.tuples(st.just("timestamp with time zone"), st.datetimes().map(lambda at: f"{at.isoformat()}Z")),
            st.tuples(st.just("time without time zone"), st.integers(-5, 86_400_000_010)),
            st.tuples(st.just("text[]"), st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=4)),
        ),
        min_size=60,
        max_size=120,
    )
)
def test_any_leaf(session: SparkSession, leaves: list[tuple[str, Any]]) -> None:
    compare(session, [Column("v", kind) for kind, _ in leaves], [leaf for _, leaf in leaves])
