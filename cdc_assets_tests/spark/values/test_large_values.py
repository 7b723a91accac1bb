"""What a large value costs: four times the value takes about four times as long, in each expression that reads or writes it.

Of every kind of type whose value may be long: from the event to silver, and from there to what is compared. A digest
of a path of some 100 kB once held Spark's slots for 22 minutes: each of its doubles was looked for from the value's start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from spark.events.text_leaves import header_forms
from spark.record_formats import UNCHANGED_HEADER
from spark.specs import Column
from spark.values.canonical_forms import Form
from spark.values.column_forms import form
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SMALL, LARGE = 1 << 17, 1 << 19
"""Bytes of a value. What takes n² takes 16 times as long, and of the larger one half a minute."""
AT_MOST = 9.0
SECONDS = 0.25
"""What the least of queries takes: a smaller one says nothing of its value."""
Make = Callable[["Expression"], "Expression"]
POINT = "000000000000F03F000000000000F87F"


def _many(text: str, size: Expression, between: str = "") -> Expression:
    return sf.concat(sf.repeat(sf.lit(text + between), (size / len(text + between)).cast("int")), sf.lit(text))


def _base64(text: Expression) -> Expression:
    """Without the line ends that Spark writes, and Debezium does not."""
    return sf.regexp_replace(sf.base64(text.cast("binary")), r"\s", "")


def _braced(text: Expression) -> Expression:
    return sf.concat(sf.lit("{"), text, sf.lit("}"))


def _wkb(header: str, size: Expression) -> Expression:
    hexadecimal = sf.concat(sf.lit(header), _many(POINT, size * 2))
    return _base64(sf.unhex(hexadecimal))


def _shape(header: str, more: str = "") -> Make:
    return lambda size: sf.concat(sf.lit('{"wkb":"'), _wkb(header, size), sf.lit(f'","srid":null{more}}}'))


def _listed(element: str) -> Make:
    return lambda size: sf.concat(sf.lit("["), _many(element, size, ","), sf.lit("]"))


def _pairs(size: Expression) -> Expression:
    pairs = sf.transform(
        sf.sequence(sf.lit(0), (size / 20).cast("int")), lambda n: sf.concat(sf.lit('"k'), n, sf.lit('":"é \\\\"}x"'))
    )
    return sf.concat(sf.lit("{"), sf.array_join(pairs, ","), sf.lit("}"))


LEAVES: dict[str, Make] = {
    "text": lambda size: _many('é;x"', size),
    "character varying": lambda size: _many('é;x"', size),
    "json": lambda size: sf.concat(sf.lit("["), _many('{"a":[1,2.50]}', size, ","), sf.lit("]")),
    "jsonb": lambda size: sf.concat(sf.lit("["), _many('{"a":[1,2.50]}', size, ","), sf.lit("]")),
    "hstore": _pairs,
    "bytea": lambda size: _base64(_many("bytes", size)),
    "bit(2097152)": lambda size: _base64(_many("bits", size / 4)),
    "numeric": lambda size: _many("123456789", size / 64),
    "polygon": _shape("01030000000100000000000100"),
    "path": _shape("010200000000000100", ',"extensions":{"closed":true}'),
    "tsvector": lambda size: _many("'word':1", size, " "),
    "text[]": _listed('"a \\\\ b"'),
    "integer[]": _listed("12345"),
    "int4multirange": lambda size: _base64(_braced(_many("[1,2)", size, ","))),
    "tstzmultirange": lambda size: _base64(_braced(_many('["2026-01-01 00:00:00+00","2026-01-02 00:00:00+00")', size, ","))),
}


def _seconds(session: SparkSession, size: int, made: Make, read: Make, name: str) -> float:
    """The best of two; the value is made in Spark, so that nothing of it travels."""
    rows = session.range(1, numPartitions=1).select((sf.col("id") + size).alias("size"))
    rows = rows.select(made(sf.col("size")).alias(name))
    found = []
    for _ in range(2):
        began = time.monotonic()
        [row] = rows.select(
            sf.xxhash64(sf.coalesce(read(sf.col(name)), sf.raise_error(sf.lit("no value")))).alias("hash")
        ).collect()
        found.append(time.monotonic() - began)
        assert row.hash is not None
    return min(found)


def _growth(session: SparkSession, made: Make, read: Make, name: str = "leaf") -> float:
    small, large = (_seconds(session, size, made, read, name) for size in (SMALL, LARGE))
    return large / max(small, SECONDS)


@pytest.mark.parametrize("type_", LEAVES)
def test_a_large_value_costs_in_proportion(session: SparkSession, type_: str) -> None:
    column = Column("v", type_, kind="base" if type_ == "hstore" else "")
    written = form(column)
    assert isinstance(written, Form)
    assert _growth(session, LEAVES[type_], lambda leaf: written.lake(lake_type(column).convert(leaf))) < AT_MOST


def test_a_long_placeholder_costs_in_proportion(session: SparkSession) -> None:
    def header(size: Expression) -> Expression:
        return sf.array(sf.struct(sf.lit(UNCHANGED_HEADER).alias("key"), _many("text", size).cast("binary").alias("value")))

    assert _growth(session, header, lambda _: header_forms(), "headers") < AT_MOST
