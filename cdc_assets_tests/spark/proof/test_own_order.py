"""Which keys are compared by two ranges, and how their values are asked for."""

from __future__ import annotations

import pytest

from spark.proof.key_order import KeyRange, OwnOrder
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

READ = [
    "bigint",
    "numeric(9,2)",
    "boolean",
    "date",
    "timestamp(3) with time zone",
    "character(5)",
    "character varying(9)",
    "uuid",
]
NOT_READ = ["double precision", "real", "bytea", "bit(3)", "text[]", "time with time zone", "inet"]
MARIADB = {"bigint(20) unsigned": True, "decimal(9,2)": True, "datetime(3)": True, "varchar(9)": True, "uuid": True}
MARIADB |= {"enum('a','b')": False, "double": False, "binary(4)": False, "float": False}


def own(*columns: Column) -> OwnOrder | None:
    return RowText(SilverSpec("s", "t", "none", "none", columns, tuple(c.name for c in columns))).own


@pytest.mark.parametrize(
    ("column", "read"),
    [
        *((Column("k", kind, False), True) for kind in READ),
        *((Column("k", kind, False), False) for kind in NOT_READ),
        *((Column("k", kind, False, dialect="mariadb"), read) for kind, read in MARIADB.items()),
        (Column("k", "public.citext", False, "base"), True),
        (Column("k", "public.shade", False, "enum"), True),
        (Column("k", "public.odd", False, "base"), False),
        (Column("k", "text", True), False),
    ],
    ids=lambda value: f"{value.dialect} {value.source_type}" if isinstance(value, Column) else str(value),
)
def test_a_key_that_is_asked_for_by_its_text(column: Column, read: bool) -> None:
    assert (own(column) is not None) == read


def test_a_place_says_nothing_where_a_type_has_become_another() -> None:
    order = own(Column("a", "date", False), Column("b", "text", False))
    assert order is not None
    assert order.declared == ("a date", "b text")


def test_conditions() -> None:
    order = own(Column("a", "date", False), Column("b", "text", False))
    assert order is not None
    part = KeyRange(order.declared, ("2026-01-01", "O'Brien"), ("2026-01-02", "%"))
    assert order.sql(part) == """("a", "b") > ('2026-01-01', 'O''Brien') AND ("a", "b") <= ('2026-01-02', '%')"""
    maria = own(
        Column("a", "decimal(20,10)", False, dialect="mariadb"), Column("b", "varchar(9)", False, "utf8mb4", dialect="mariadb")
    )
    assert maria is not None
    assert maria.one_of([("1E-10", "ü'"), ("2", "")]) == "(`a`, `b`) IN ((0.0000000001, _utf8mb4 X'c3bc27'), (2, _utf8mb4 X''))"
    other = own(Column("b", "varchar(9)", False, "latin2", dialect="mariadb"))
    assert other is not None
    assert other.one_of([("ž",), ("a",)]) == "(`b` = _utf8mb4 X'c5be') OR (`b` = _utf8mb4 X'61')"
