"""Geometric types: the bits of their doubles, and how many points.

    PostgreSQL   what the type's send function writes, which is its own binary form
    silver       the coordinates of a struct; of well-known binary the header, and its doubles with the first byte first

NaN is one value, as it is among numbers. Well-known binary is compared whole: a polygon's and a box's ring ends where it began.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import Form
from spark.canonical.number_forms import bits

_LINE, _RING = "0102000000", "010300000001000000"
"""Well-known binary's beginnings, least significant byte first: a line string; a polygon of one ring."""
_DOUBLE = 16
"""Hexadecimal digits of a double."""
_SIGNED_NAN, _NAN = "FFF8000000000000", "7FF8000000000000"


def _bits(send: str) -> Callable[[str], str]:
    """What the send function writes, in hexadecimal."""

    def sql(column: str) -> str:
        return f"replace(upper(encode({send}({column}), 'hex')), '{_SIGNED_NAN}', '{_NAN}')"

    return sql


def _doubles(send: str, *names: str) -> Form:
    """A struct of doubles, in the order in which PostgreSQL sends them."""

    def lake(column: Expression) -> Expression:
        written = [sf.when(sf.isnan(column[n]), _NAN).otherwise(bits(column[n])) for n in names]
        whole = sf.concat(*[sf.coalesce(each, sf.lit("NULL")) for each in written])
        return sf.when(column.isNotNull(), whole)

    return Form(_bits(send), lake)


def _count(points: str) -> str:
    """Four bytes of a count, least significant first."""
    digits = f"lpad(to_hex({points}), 8, '0')"
    return " || ".join(f"substr({digits}, {at}, 2)" for at in (7, 5, 3, 1))


def _segment(column: str) -> str:
    return f"'{_LINE}02000000' || {_bits('lseg_send')(column)}"


def _box(column: str) -> str:
    """Its corners from the upper right on; a box is sent as upper right and lower left."""
    sent = _bits("box_send")(column)
    right, top, left, bottom = (f"substr({sent}, {1 + i * _DOUBLE}, {_DOUBLE})" for i in range(4))
    corners = ((right, top), (right, bottom), (left, bottom), (left, top), (right, top))
    return " || ".join([f"'{_RING}05000000'", *(value for corner in corners for value in corner)])


def _polygon(column: str) -> str:
    """Debezium ends a ring where it began, unless it does so by itself, or is one point (closeRing in its converter, 3.7)."""
    points = f"substr({_bits('poly_send')(column)}, 9)"
    first = f"left({points}, {2 * _DOUBLE})"
    open_ = f"npoints({column}) > 1 AND NOT ({_same_point(first, f'right({points}, {2 * _DOUBLE})')})"
    count = f"npoints({column}) + CASE WHEN {open_} THEN 1 ELSE 0 END"
    return f"'{_RING}' || upper({_count(f'({count})')}) || {points} || CASE WHEN {open_} THEN {first} ELSE '' END"


def _same_point(one: str, other: str) -> str:
    """As Java compares: zeros are equal whatever their sign, NaN is equal to nothing."""
    same = []
    for at in (1, 1 + _DOUBLE):
        left, right = (f"replace(substr({p}, {at}, {_DOUBLE}), '8000000000000000', '0000000000000000')" for p in (one, other))
        same += [f"{left} = {right}", f"{left} <> '{_NAN}'"]
    return " AND ".join(same)


def _path(column: str) -> str:
    """A flag, how many points, the points."""
    points = f"substr({_bits('path_send')(column)}, 11)"
    return f"isclosed({column})::text || ':{_LINE}' || upper({_count(f'npoints({column})')}) || {points}"


def _wkb(column: Expression, header: int) -> Expression:
    """Well-known binary with a header of so many bytes, and its doubles with the first byte first."""
    digits, begin = sf.hex(column), 2 * header
    whole = sf.floor((sf.length(digits) - begin) / _DOUBLE) * _DOUBLE
    body = sf.substr(digits, sf.lit(begin + 1), sf.greatest(whole, sf.lit(0)).cast("int"))
    # In one pass each: `substr` counts from a text's start, so that one for each double takes n². The comma shows where one ends.
    written = sf.regexp_replace(body, "(..)" * 8, "".join(f"${n}" for n in range(8, 0, -1)) + ",")
    doubles = sf.replace(sf.replace(written, sf.lit(f"{_SIGNED_NAN},"), sf.lit(f"{_NAN},")), sf.lit(","), sf.lit(""))
    left = sf.left(digits, sf.lit(begin))
    # What is no whole double is damage, and must not look like none.
    rest = sf.when(sf.length(digits) != begin + whole, sf.concat(sf.lit("?"), digits)).otherwise("")
    return sf.when(column.isNotNull(), sf.concat(left, doubles, rest))


def _in_path(column: Expression) -> Expression:
    return sf.concat(column["closed"].cast("string"), sf.lit(":"), _wkb(column["wkb"], 9))


FORMS = {
    "point": _doubles("point_send", "x", "y"),
    "line": _doubles("line_send", "a", "b", "c"),
    "circle": _doubles("circle_send", "x", "y", "radius"),
    "lseg": Form(_segment, lambda c: _wkb(c, 9)),
    "box": Form(_box, lambda c: _wkb(c, 13)),
    "polygon": Form(_polygon, lambda c: _wkb(c, 13)),
    "path": Form(_path, _in_path),
}
