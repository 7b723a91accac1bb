"""Leaves as Debezium 3.7 really sent them, by the type of their column."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from spark.specs import Column

UTC = dt.timezone.utc
SENT: list[tuple[str, Any, Any]] = [
    ("boolean", True, True),
    ("smallint", -32768, -32768),
    ("integer", 2147483647, 2147483647),
    ("bigint", 9223372036854775807, 9223372036854775807),
    ("real", 3.4e38, 3.3999999521443642e38),
    ("double precision", 5e-324, 5e-324),
    ("double precision", "NaN", math.nan),
    ("double precision", "-Infinity", -math.inf),
    ("double precision", 0.1, 0.1),
    ("numeric(10,2)", "-0.01", Decimal("-0.01")),
    ("numeric(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("numeric(40,10)", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"),
    ("numeric", "0.000", "0.000"),
    ("numeric", "NAN", "NaN"),
    ("numeric", "NEGATIVE_INFINITY", "-Infinity"),
    ("numeric(5,-2)", "12300.00", Decimal("12300")),
    ("character(5)", "ab   ", "ab   "),
    ("text", 'quo"te\\ \u0000 \N{SNOWMAN}\n', 'quo"te\\ \u0000 \N{SNOWMAN}\n'),
    ("text", "", ""),
    ("text", "null", "null"),
    ("jsonb", '{"a": 1.0}', '{"a": 1.0}'),
    ("uuid", "7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11", "7e0f4b7e-1c58-4fd1-8b0d-6b5f1f6e0b11"),
    ("public.mood", "happy", "happy"),
    ("interval", "P1Y2M3DT4H5M6.789S", "P1Y2M3DT4H5M6.789S"),
    ("date", 19782, dt.date(2024, 2, 29)),
    ("date", -719162, dt.date(1, 1, 1)),
    ("date", -141438, dt.date(1582, 10, 4)),
    ("timestamp without time zone", 1709210096123456, dt.datetime(2024, 2, 29, 12, 34, 56, 123456)),
    ("timestamp(3) without time zone", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("timestamp without time zone", -62135596800000000, dt.datetime(1, 1, 1)),
    ("timestamp with time zone", "2024-02-29T07:34:56.123456Z", dt.datetime(2024, 2, 29, 7, 34, 56, 123456, tzinfo=UTC)),
    ("timestamp with time zone", "1582-10-04T00:00:00.000000Z", dt.datetime(1582, 10, 4, tzinfo=UTC)),
    ("time without time zone", 86399123456, "23:59:59.123456"),
    ("time(3) without time zone", 86400000000, "24:00:00.000000"),
    ("time with time zone", "02:05:06Z", "02:05:06Z"),
    ("bytea", "AP8Q", b"\x00\xff\x10"),
    ("bytea", "", b""),
    ("bit(1)", True, True),
    ("integer[]", [1, None, 3], [1, None, 3]),
    ("text[]", ["a", None, "b,c", ""], ["a", None, "b,c", ""]),
    ("numeric(8,2)[]", ["1.10", None], [Decimal("1.10"), None]),
    ("boolean[]", [True, False], [True, False]),
    ("date[]", [19723], [dt.date(2024, 1, 1)]),
    ("bytea[]", ["AP8="], [b"\x00\xff"]),
    ("integer[]", [], []),
]
REFUSED: list[tuple[str, Any]] = [
    ("integer", 2147483648),
    ("smallint", 1.5),
    ("integer", "x"),
    ("boolean", 1),
    ("numeric(10,2)", "1.234"),
    ("numeric(10,2)", "123456789.00"),
    ("numeric(10,2)", "NAN"),
    ("date", -622191234),
    ("date", -719163),
    ("timestamp without time zone", 9223372036854775807),
    ("timestamp with time zone", "infinity"),
    ("time without time zone", 86400000001),
    ("bytea", "!!"),
    ("integer[]", [1, "x"]),
    ("integer[]", {"a": 1}),
    ("public.pair", {"a": 1}),
    ("integer[]", [None, None]),
    ("text[]", ["[Ljava.lang.String;@7b3db3f1"]),
    ("bit(3)", "CA=="),
    ("point", {"x": 1.0, "y": None}),
]


def typed(name: str, kind: str) -> Column:
    """A column as the catalogue shows it, of a table that accepts what Debezium loses."""
    return Column(name, kind, kind="composite" if kind == "public.pair" else "enum" if "." in kind else "", accepted=True)
