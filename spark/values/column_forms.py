"""The canonical form of each column: by its type in PostgreSQL, and as MariaDB and MySQL write it; or why it has none.

MariaDB's types have the same texts from its SQL as Spark writes of silver's columns. Text is brought to UTF-8 and compared by its
code points. No text depends on the session: conditions on keys are read in the connector's, whose time zone and mode are others.

MySQL's rows have the texts of PostgreSQL's types (Spark's side is theirs), written by MySQL's SQL. A column's own type in the
database may be another than its declared one; `fits` tells where the SQL is right for both. Texts of moments are those of a
session in UTC, which a cut's is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.specs import Column
from spark.values import canonical_forms
from spark.values.canonical_forms import Form, Incomparable, bits, one_zero, plain, prefix_length
from spark.values.mariadb_types import parse
from spark.values.type_rule import SourceType

_ACCEPTED = "accept_inexact takes what Debezium changes of it"


def utf8(text: str) -> str:
    """A text in the one character set and collation that all pieces have."""
    return f"CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin"


def _prefix_length(text: str) -> str:
    return f"CONCAT(LENGTH({text}), ':', {text})"


def _trim_zeros(column: str, digits: int) -> str:
    """Spark writes fractions without trailing zeros."""
    text = f"CAST({column} AS CHAR)"
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))" if digits else text


def _in_utc(column: str) -> str:
    """A TIMESTAMP whatever the session's time zone; of a conversion between zones an hour would be two when clocks go back."""
    return f"(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({column}) SECOND)"


def _double_bits(column: str) -> str:
    """A dynamic column ends with its double's eight bytes, least significant first: MariaDB has no other door to them.

    https://mariadb.com/kb/en/dynamic-columns/
    """
    bytes_ = f"RIGHT(COLUMN_CREATE('a', {column} AS DOUBLE), 8)"
    return f"IF({column} IS NULL, NULL, HEX(REVERSE({bytes_})))"


def _lake_bits(column: Expression) -> Expression:
    return sf.left(bits(column), sf.lit(16))


def _shape(column: Expression) -> Expression:
    return sf.concat(column["srid"].cast("string"), sf.lit(":"), sf.md5(column["wkb"]))


# `+ 0` is the number without the zeros of ZEROFILL.
_WHOLE = Form(lambda c: f"CAST({c} + 0 AS CHAR)", plain)
_TEXT = Form(lambda c: _prefix_length(utf8(c)), prefix_length, with_length=True)
# A CHAR ends with no blank, but in a session with PAD_CHAR_TO_FULL_LENGTH.
_CHAR = Form(lambda c: _prefix_length(f"TRIM(TRAILING ' ' FROM {utf8(c)})"), prefix_length, with_length=True)
_BYTES = Form(lambda c: f"MD5({c})", sf.md5)
_SHAPE = Form(lambda c: f"CONCAT(ST_SRID({c}), ':', MD5(ST_AsBinary({c})))", _shape)
_DOUBLE = Form(_double_bits, _lake_bits, in_key=one_zero(_double_bits, _lake_bits, "0" * 16))
_FORMS: dict[str, Form | Incomparable] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("tinyint unsigned", "smallint unsigned", "mediumint unsigned", "int unsigned", "bigint unsigned"), _WHOLE),
    "year": _WHOLE,
    **dict.fromkeys(("double", "double unsigned"), _DOUBLE),
    **dict.fromkeys(("float", "float unsigned"), Incomparable("a snapshot reads six digits of it")),
    "char": _CHAR,
    **dict.fromkeys(("varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "uuid"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BYTES),
    "date": Form(lambda c: f"CAST({c} AS CHAR)", plain),
    "time": Form(lambda c: f"CAST(CAST({c} AS TIME(6)) AS CHAR)", plain),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon"), _SHAPE),
    **dict.fromkeys(("multipoint", "multilinestring", "multipolygon", "geometrycollection"), _SHAPE),
}
WHOLE = tuple(name for name, form in _FORMS.items() if form is _WHOLE and name != "bigint unsigned")


def type_name(column: Column) -> str | None:
    """Its type without digits."""
    source = parse(column.source_type, column.kind)
    return source.name if source else None


def mariadb_form(column: Column) -> Form | Incomparable:
    """How values of the column are written for a comparison; or why they cannot be."""
    source = parse(column.source_type, column.kind)
    if source is None:
        return Incomparable(f"{column.source_type} is not a type that information_schema writes")
    if column.accepted:
        return Incomparable(_ACCEPTED)
    return _form_by_digits(source) or _FORMS.get(source.name) or Incomparable("no common text is known of it")


def _form_by_digits(source: SourceType) -> Form | None:
    """Types whose text depends on their digits."""
    first = source.args[0] if source.args else 0
    if source.name in ("decimal", "decimal unsigned"):
        digits = ",".join(map(str, source.args or (10, 0)))
        return Form(lambda c: f"CAST(CAST({c} AS DECIMAL({digits})) AS CHAR)", plain)
    if source.name == "datetime":
        return Form(lambda c: _trim_zeros(c, first), plain)
    if source.name == "timestamp":
        return Form(lambda c: _trim_zeros(_in_utc(c), first), plain)
    if source.name == "bit" and (first or 1) == 1:
        return Form(lambda c: f"IF({c} IS NULL, NULL, IF({c} + 0, 'true', 'false'))", plain)
    if source.name == "bit":
        return Form(lambda c: f"LPAD(BIN({c} + 0), {first}, '0')", plain)
    return None


_SIX = "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(CAST({} AS DATETIME(6)) AS CHAR)))"


def _mysql_double_bits(column: str) -> str:
    """A point's second five to twelve bytes are its x, least significant byte first: MySQL has no other door to them."""
    return f"HEX(REVERSE(SUBSTRING(ST_AsBinary(POINT({column}, 0)), 6, 8)))"


def _float_bits(column: str) -> str:
    """The 32 bits of a float from the 64 of the same number: sign, exponent (its bias is 896 less), 23 bits."""
    bits = f"CAST(CONV({_mysql_double_bits(column)}, 16, 10) AS UNSIGNED)"
    exponent, fraction = f"(({bits} >> 52) & 2047)", f"({bits} & 4503599627370495)"
    small = f"IF({exponent} = 0, 0, ((4503599627370496 | {fraction}) >> (926 - {exponent})))"
    rest = f"IF({exponent} > 896, (({exponent} - 896) << 23) | ({fraction} >> 29), {small})"
    return f"LPAD(HEX((({bits} >> 63) << 31) | {rest}), 8, '0')"


_MYSQL_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_MYSQL_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_MYSQL_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_MYSQL_SQL: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    # `+ 0` is the number without the zeros of ZEROFILL.
    **dict.fromkeys(
        ("smallint", "integer", "bigint", "bigint unsigned", "year"), (lambda c: f"CAST({c} + 0 AS CHAR)", _MYSQL_WHOLE)
    ),
    "boolean": (lambda c: f"IF({c} IS NULL, NULL, IF({c} + 0, 'true', 'false'))", ("bit",)),
    "double precision": (_mysql_double_bits, ("double",)),
    "real": (_float_bits, ("float",)),
    **dict.fromkeys(
        ("text", "character varying", "character", "uuid"), (lambda c: f"CONCAT(LENGTH({utf8(c)}), ':', {utf8(c)})", _MYSQL_TEXTS)
    ),
    "bytea": (lambda c: f"SHA2({c}, 256)", _MYSQL_BYTES),
    "date": (lambda c: f"CAST({c} AS CHAR)", ("date",)),
    "timestamp without time zone": (_SIX.format, ("datetime",)),
    "timestamp with time zone": (_SIX.format, ("timestamp",)),
    "time without time zone": (lambda c: f"CAST(CAST({c} AS TIME(6)) AS CHAR)", ("time",)),
    "numeric": (lambda c: f"CAST({c} AS CHAR)", ("decimal",)),
    "bit": (lambda c: f"BIN({c} + 0)", ("bit",)),
}


def mysql_form(column: Column, form: Form) -> Form | Incomparable:
    """The form with MySQL's SQL, or why there is none. Of a type that only pages can be compared by, the form as it is."""
    source = SourceType.parse(column.source_type, column.kind)
    if source is None or source.array or source.name not in _MYSQL_SQL:
        return Incomparable("no common text is known of it")
    if _only_in_pages(source):
        return form
    sql = _sql(source)
    if source.name == "bytea":
        return replace(form, sql=sql, lake=lambda c: sf.sha2(c, 256))
    in_key = form.in_key and one_zero(sql, form.lake, "0" * (8 if source.name == "real" else 16))
    return replace(form, sql=sql, parts=None, in_key=in_key)


def fits(written: str, column: Column) -> bool:
    """Whether the SQL of the declared type is right for a column that the database has as `written`."""
    source, name = SourceType.parse(column.source_type, column.kind), written.lower().split("(")[0].split(" ")[0]
    if source is None or source.name not in _MYSQL_SQL:
        return True
    return name in _MYSQL_SQL[source.name][1] and not _only_in_pages(source)


def _only_in_pages(source: SourceType) -> bool:
    """Digits of any size are text in the lake."""
    return source.name == "numeric" and not source.args


def _sql(source: SourceType) -> Callable[[str], str]:
    if source.name == "numeric":
        digits = ",".join(map(str, source.args))
        return lambda c: f"CAST(CAST({c} AS DECIMAL({digits})) AS CHAR)"
    if source.name == "bit":
        width = (source.args or (1,))[0]
        return _MYSQL_SQL["boolean"][0] if width == 1 else lambda c: f"LPAD(BIN({c} + 0), {width}, '0')"
    return _MYSQL_SQL[source.name][0]


_BY_TYPE: dict[str, Form | Incomparable] = {
    **canonical_forms.NUMBER_FORMS,
    **canonical_forms.TEXT_FORMS,
    **canonical_forms.TEMPORAL_FORMS,
    **canonical_forms.BINARY_FORMS,
    **canonical_forms.GEOMETRIC_FORMS,
}


@cache
def form(column: Column) -> Form | Incomparable:
    """How values of the column are written for a comparison; or why they cannot be."""
    return _OF_DIALECT.get(column.dialect, _postgresql_form)(column)


def _mysql_form(column: Column) -> Form | Incomparable:
    form = _postgresql_form(column)
    return mysql_form(column, form) if isinstance(form, Form) else form


def _postgresql_form(column: Column) -> Form | Incomparable:
    source = SourceType.parse(column.source_type, column.kind)
    if source is None:
        return Incomparable(f"{column.source_type} is not a type that format_type() writes")
    if source.name == "bit" and (source.args or (1,))[0] == 1:
        element: Form | Incomparable = canonical_forms.BIT
    elif column.accepted and source.name.startswith("interval"):
        element = canonical_forms.FINITE_INTERVAL
    else:
        element = _BY_TYPE.get(source.name) or _BY_TYPE.get(source.bare) or canonical_forms.OTHER
    if source.array and source.bare == "time with time zone":
        return Incomparable("Debezium cuts the microseconds of its elements")
    if source.array and isinstance(element, Form):
        return canonical_forms.array_of(element, of_rows=source.kind in ("composite", "domain"))
    return element


_OF_DIALECT: dict[str, Callable[[Column], Form | Incomparable]] = {"mariadb": mariadb_form, "mysql": _mysql_form}
