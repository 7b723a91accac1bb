"""Canonical forms: one SQL expression of PostgreSQL and one of Spark that give the same text for equal values.

Rules that make a row's text unambiguous: a value's form is never empty, and NULL is empty; no form but that of a text
holds `;`, which ends every column; a text is preceded by its length in bytes (UTF-8).

Dates, times and moments have PostgreSQL's ISO text, which Spark's cast writes as well (fractions without trailing zeros).
Intervals have the bits of what PostgreSQL keeps: microseconds, days and months.

Geometric types have the bits of their doubles, and how many points. PostgreSQL: what the type's send function writes, which is
its own binary form. Silver: the coordinates of a struct; of well-known binary the header, and its doubles with the first byte
first. NaN is one value, as it is among numbers. Well-known binary is compared whole: a polygon's and a box's ring ends where it
began. Arrays: how many elements, and each by its own form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf


@dataclass(frozen=True)
class Form:
    """`sql` takes a quoted column of PostgreSQL, `lake` the column of silver. NULL stays NULL in both.

    `parts` is the same as arguments of PostgreSQL's concat(), which writes values by their output functions and NULL as nothing:
    cheaper where that saves copies. `in_key` is the form in a key, of a type whose equal values may be written differently: 0 and
    -0 are one key to the source and to Spark, which shows one of them for both.
    """

    sql: Callable[[str], str]
    lake: Callable[[Expression], Expression]
    with_length: bool = False
    parts: Callable[[str], tuple[str, ...]] | None = None
    in_key: Form | None = None

    def arguments(self, column: str) -> tuple[str, ...]:
        """The arguments of concat() that write the column."""
        return (self.sql(column),) if self.parts is None else self.parts(column)

    def display(self, text: str | None) -> str | None:
        """The value for people."""
        return text.partition(":")[2] if text is not None and self.with_length else text


@dataclass(frozen=True)
class Incomparable:
    """A type without a form that both sides write the same, and why."""

    why: str


def plain(column: Expression) -> Expression:
    """Spark's own text of a value."""
    return column.cast("string")


def prefix_length(text: Expression) -> Expression:
    """A text preceded by its length in bytes."""
    return sf.concat(sf.octet_length(text).cast("string"), sf.lit(":"), text)


def prefix_length_sql(text: str) -> str:
    """The same in PostgreSQL, of an expression that is a text or NULL."""
    return f"octet_length({text})::text || ':' || {text}"


def is_there(value: str) -> str:
    """That a value is not NULL. Of a row type with a NULL field `IS NOT NULL` is false, and with NULLs alone `IS NULL` is true.

    https://www.postgresql.org/docs/18/functions-comparison.html
    """
    return f"{value} IS DISTINCT FROM NULL"


def output(column: str) -> str:
    """What the type's own output function writes; `::text` drops blanks of character(n) and writes inet with its mask."""
    return f"CASE WHEN {is_there(column)} THEN concat({column}) END"


AS_TEXT = Form(lambda c: f"{c}::text", plain)
AS_WRITTEN = replace(AS_TEXT, parts=lambda c: (c,))
"""Of types whose `::text` is their output function."""
MEASURED = Form(lambda c: prefix_length_sql(f"({output(c)})"), prefix_length, with_length=True)
# octet_length and || give NULL for NULL by themselves, so the common types need no CASE.
MEASURED_TEXT = Form(
    lambda c: prefix_length_sql(f"{c}::text"),
    prefix_length,
    with_length=True,
    parts=lambda c: (f"octet_length({c}::text)", f"':' || {c}::text"),
)
PADDED = replace(MEASURED, parts=lambda c: (f"octet_length({c})", f"CASE WHEN {c} IS NOT NULL THEN ':' END", c))
"""character(n): its length is that of what is written, blanks included."""


def bits(column: Expression) -> Expression:
    """The IEEE 754 bits as hexadecimal, most significant byte first.

    Spark shows a double by Java's text, which is not PostgreSQL's and, before Java 19, not the shortest. Avro's binary
    form of a number is its bits, least significant byte first; the byte before them says which of [value, null] it is.
    """
    from pyspark.sql.avro.functions import to_avro

    digits = sf.hex(to_avro(column))
    count = sf.length(digits) / 2
    octets = sf.transform(
        sf.sequence(sf.lit(0), sf.lit(7)),
        lambda i: sf.when(i < count, sf.substr(digits, sf.length(digits) - i * 2 - 1, sf.lit(2))),
    )
    return sf.when(column.isNotNull(), sf.array_join(octets, ""))


def _float(send: str, width: int, nan: str) -> Form:
    """NaN is one value: a processor's own has a sign (`'Infinity' - 'Infinity'`), and PostgreSQL shows and sends each as NaN."""

    def lake(column: Expression) -> Expression:
        return sf.when(sf.isnan(column), nan).otherwise(sf.left(bits(column), sf.lit(2 * width)))

    def sql(column: str) -> str:
        return f"CASE WHEN {column} = 'NaN' THEN '{nan}' ELSE upper(encode({send}({column}), 'hex')) END"

    return Form(sql, lake, in_key=one_zero(sql, lake, "0" * 2 * width))


def one_zero(sql: Callable[[str], str], lake: Callable[[Expression], Expression], zero: str) -> Form:
    """The same, but for -0, which is written as 0 is."""
    return Form(
        lambda c: f"CASE WHEN {c} = 0 THEN '{zero}' ELSE {sql(c)} END", lambda c: sf.when(c == 0, zero).otherwise(lake(c))
    )


BIT = Form(lambda c: f"({c} = B'1')::text", plain)
NUMBER_FORMS = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned", "year", "oid", "numeric"), AS_WRITTEN),
    "boolean": AS_TEXT,
    "real": _float("float4send", 4, "7FC00000"),
    "double precision": _float("float8send", 8, "7FF8000000000000"),
    "money": Form(lambda c: f"{c}::numeric::text", plain),
}


def _pairs(column: str) -> str:
    """By json, so that hstore's own functions need not be in the search path; keys by their bytes."""
    value = f"coalesce({prefix_length_sql('value')}, 'N')"
    listed = f"string_agg(concat({prefix_length_sql('key')}, '=', {value}), ',' ORDER BY key COLLATE \"C\")"
    return _digest(column, f"(SELECT concat(count(*), '[', {listed}, ']') FROM json_each_text(({column})::json))")


def _json_pairs(text: Expression) -> Expression:
    """A JSON object; any other text as it is, also one that only begins with an object: Spark reads no further than that."""
    unquoted = sf.regexp_replace(sf.regexp_replace(text, r"\\.", ""), '"[^"]*"', "")
    entries = sf.array_sort(sf.map_entries(sf.from_json(text, "map<string,string>")))
    pairs = sf.transform(
        entries,
        lambda pair: sf.concat(prefix_length(pair["key"]), sf.lit("="), sf.coalesce(prefix_length(pair["value"]), sf.lit("N"))),
    )
    listed = sf.concat(sf.size(entries).cast("string"), sf.lit("["), sf.array_join(pairs, ","), sf.lit("]"))
    return sf.md5(sf.coalesce(sf.when(unquoted.rlike(r"^\s*\{[^{}]*\}\s*$"), listed), text))


def _digest(column: str, text: str) -> str:
    return f"CASE WHEN {column} IS NOT NULL THEN md5({text}) END"


def _range_in_utc(value: str) -> str:
    bounds = ", ".join(f"{bound}({value}) AT TIME ZONE 'UTC'" for bound in ("lower", "upper"))
    closed = f"CASE WHEN lower_inc({value}) THEN '[' ELSE '(' END || CASE WHEN upper_inc({value}) THEN ']' ELSE ')' END"
    return f"CASE WHEN isempty({value}) THEN 'empty' ELSE tsrange({bounds}, {closed})::text END"


def _range(column: str) -> str:
    return prefix_length_sql(f"(CASE WHEN {column} IS NOT NULL THEN {_range_in_utc(column)} END)")


def _multirange(column: str) -> str:
    items = f"unnest({column}) WITH ORDINALITY x(_cdc_r, _cdc_o)"
    ranges = f"SELECT string_agg({_range_in_utc('_cdc_r')}, ',' ORDER BY _cdc_o) FROM {items}"
    return prefix_length_sql(f"(CASE WHEN {column} IS NOT NULL THEN concat('{{', ({ranges}), '}}') END)")


def _in_utc(text: Expression) -> Expression:
    """PostgreSQL quotes a bound that is a moment, and nothing else: every second piece between quotes is one.

    A moment that Spark does not know (BC) is left as it is, without the zone where that is UTC.
    """
    pieces = sf.split(text, '"')

    def plain(piece: Expression, at: Expression) -> Expression:
        moment = sf.regexp_replace(piece.try_cast("timestamp").cast("string"), r"^\+", "")
        return sf.when(at % 2 == 1, sf.coalesce(moment, sf.regexp_replace(piece, r"\+00( BC)?$", "$1"))).otherwise(piece)

    return prefix_length(sf.array_join(sf.transform(pieces, plain), '"'))


TEXT_FORMS: dict[str, Form | Incomparable] = {
    **dict.fromkeys(("text", "character varying", "json", "jsonb", "uuid", "citext"), MEASURED_TEXT),
    "character": PADDED,
    "hstore": Form(_pairs, _json_pairs),
    "tstzrange": Form(_range, _in_utc, with_length=True),
    "tstzmultirange": Form(_multirange, _in_utc, with_length=True),
}
# The output function's text: character(n), "char", name, inet, ranges, enums, search types and all others.
OTHER = MEASURED


_ISO = r"^P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?\d+(?:\.\d{1,6})?)S$"
_NO_TIME = "0" * 32


def _utc(column: str) -> str:
    return f"({column} AT TIME ZONE 'UTC')"


def _utc_time(column: str) -> str:
    """As Debezium sends it: in UTC without its offset, and NULL where that has seconds."""
    whole = f"extract(timezone FROM {column})::int % 60 = 0"
    return f"CASE WHEN {whole} THEN left(({column} AT TIME ZONE 'UTC')::text, -3) END"


def _binary(column: str) -> str:
    """`interval_send` writes 8 bytes of microseconds, 4 of days, 4 of months."""
    return f"upper(encode(interval_send({column}), 'hex'))"


def _finite(column: str) -> str:
    """Debezium sends infinity as zero: a column that accepts that is compared as if it were."""
    return f"CASE WHEN isfinite({column}) THEN {_binary(column)} WHEN {column} IS NOT NULL THEN '{_NO_TIME}' END"


def _from_iso(text: Expression) -> Expression:
    """ISO 8601 as Debezium writes it; any other text as it is, which no interval's bits are."""
    years, months, days, hours, minutes, seconds = (
        sf.regexp_extract(text, _ISO, i).try_cast("decimal(38,6)") for i in range(1, 7)
    )
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    parts = ((micros, 16), (days, 8), (years * 12 + months, 8))
    digits = [sf.right(sf.lpad(sf.hex(value.try_cast("bigint")), 16, "0"), sf.lit(count)) for value, count in parts]
    return sf.coalesce(sf.concat(*digits), sf.replace(text, sf.lit(";"), sf.lit(":")))


INTERVAL, FINITE_INTERVAL = Form(_binary, _from_iso), Form(_finite, _from_iso)
TEMPORAL_FORMS: dict[str, Form | Incomparable] = {
    "date": AS_WRITTEN,
    "timestamp without time zone": AS_WRITTEN,
    "timestamp with time zone": Form(lambda c: f"{_utc(c)}::text", plain, parts=lambda c: (_utc(c),)),
    "time without time zone": Form(lambda c: f"to_char({c}, 'HH24:MI:SS.US')", plain),
    "time with time zone": Form(_utc_time, lambda text: sf.rtrim(text, sf.lit("Z"))),
    **dict.fromkeys(("interval", "interval year to month", "interval day to second"), INTERVAL),
}


BINARY_FORMS = {"bytea": Form(lambda c: f"md5({c})", sf.md5), "bit": AS_TEXT}


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
        whole = sf.concat(*[sf.coalesce(number, sf.lit("NULL")) for number in written])
        return sf.when(column.isNotNull(), whole)

    return Form(_bits(send), lake)


def _count(points: str) -> str:
    """Four bytes of a count, least significant first."""
    digits = f"lpad(to_hex({points}), 8, '0')"
    return " || ".join(f"substr({digits}, {at}, 2)" for at in (7, 5, 3, 1))


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


GEOMETRIC_FORMS = {
    "point": _doubles("point_send", "x", "y"),
    "line": _doubles("line_send", "a", "b", "c"),
    "circle": _doubles("circle_send", "x", "y", "radius"),
    "lseg": Form(lambda c: f"'{_LINE}02000000' || {_bits('lseg_send')(c)}", lambda c: _wkb(c, 9)),
    "box": Form(_box, lambda c: _wkb(c, 13)),
    "polygon": Form(_polygon, lambda c: _wkb(c, 13)),
    "path": Form(_path, lambda c: sf.concat(c["closed"].cast("string"), sf.lit(":"), _wkb(c["wkb"], 9))),
}


def array_of(element: Form, *, of_rows: bool = False) -> Form:
    """An array of these elements; NULL among them is `N`. `of_rows`: they are, or may be, of a row type."""

    def sql(column: str) -> str:
        value = f"coalesce({prefix_length_sql('(' + element.sql('_cdc_e') + ')')}, 'N')"
        # Of a row type unnest() gives the fields, and not the value.
        rows = f"generate_subscripts({column}, 1) i(_cdc_o), LATERAL (SELECT ({column})[_cdc_o] AS _cdc_e) x"
        items = rows if of_rows else f"unnest({column}) WITH ORDINALITY x(_cdc_e, _cdc_o)"
        listed = f"SELECT concat(count(*), '[', string_agg({value}, ',' ORDER BY _cdc_o), ']') FROM {items}"
        return f"CASE WHEN {is_there(column)} THEN ({listed}) END"

    def lake(column: Expression) -> Expression:
        values = sf.transform(column, lambda e: sf.coalesce(prefix_length(element.lake(e)), sf.lit("N")))
        listed = sf.concat(sf.size(column).cast("string"), sf.lit("["), sf.array_join(values, ","), sf.lit("]"))
        return sf.when(column.isNotNull(), listed)

    return Form(sql, lake, in_key=array_of(element.in_key) if element.in_key else None)
