"""MySQL's rows: the texts of PostgreSQL's types (Spark's side is theirs), written by MySQL's SQL.

A column's own type in the database may be another than its declared one; `fits` tells where the SQL is right for both. Texts of
moments are those of a session in UTC, which a cut's is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import functions as sf

from spark.canonical.form import Form, Incomparable
from spark.canonical.mariadb import utf8
from spark.canonical.number_forms import one_zero
from spark.specs import Column
from spark.types.rule import SourceType

_SIX = "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CAST(CAST({} AS DATETIME(6)) AS CHAR)))"


def _text(column: str) -> str:
    return f"CONCAT(LENGTH({utf8(column)}), ':', {utf8(column)})"


def _double_bits(column: str) -> str:
    """A point's second five to twelve bytes are its x, least significant byte first: MySQL has no other door to them."""
    return f"HEX(REVERSE(SUBSTRING(ST_AsBinary(POINT({column}, 0)), 6, 8)))"


def _float_bits(column: str) -> str:
    """The 32 bits of a float from the 64 of the same number: sign, exponent (its bias is 896 less), 23 bits."""
    bits = f"CAST(CONV({_double_bits(column)}, 16, 10) AS UNSIGNED)"
    exponent, fraction = f"(({bits} >> 52) & 2047)", f"({bits} & 4503599627370495)"
    small = f"IF({exponent} = 0, 0, ((4503599627370496 | {fraction}) >> (926 - {exponent})))"
    rest = f"IF({exponent} > 896, (({exponent} - 896) << 23) | ({fraction} >> 29), {small})"
    return f"LPAD(HEX((({bits} >> 63) << 31) | {rest}), 8, '0')"


_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_SQL: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    # `+ 0` is the number without the zeros of ZEROFILL.
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned"), (lambda c: f"CAST({c} + 0 AS CHAR)", _WHOLE)),
    "boolean": (lambda c: f"IF({c} IS NULL, NULL, IF({c} + 0, 'true', 'false'))", ("bit",)),
    "double precision": (_double_bits, ("double",)),
    "real": (_float_bits, ("float",)),
    **dict.fromkeys(("text", "character varying", "character", "uuid"), (_text, _TEXTS)),
    "bytea": (lambda c: f"SHA2({c}, 256)", _BYTES),
    "date": (lambda c: f"CAST({c} AS CHAR)", ("date",)),
    "timestamp without time zone": (_SIX.format, ("datetime",)),
    "timestamp with time zone": (_SIX.format, ("timestamp",)),
    "time without time zone": (lambda c: f"CAST(CAST({c} AS TIME(6)) AS CHAR)", ("time",)),
    "numeric": (lambda c: f"CAST({c} AS CHAR)", ("decimal",)),
    "bit": (lambda c: f"BIN({c} + 0)", ("bit",)),
}


def form(column: Column, found: Form) -> Form | Incomparable:
    """The form with MySQL's SQL, or why there is none. Of a type that only pages can be compared by, the form as it is."""
    source = SourceType.parse(column.source_type, column.kind)
    if source is None or source.array or source.name not in _SQL:
        return Incomparable("no common text is known of it")
    if _only_in_pages(source):
        return found
    sql = _sql(source)
    if source.name == "bytea":
        return replace(found, sql=sql, lake=lambda c: sf.sha2(c, 256))
    in_key = found.in_key and one_zero(sql, found.lake, "0" * (8 if source.name == "real" else 16))
    return replace(found, sql=sql, parts=None, in_key=in_key)


def fits(written: str, column: Column) -> bool:
    """Whether the SQL of the declared type is right for a column that the database has as `written`."""
    source, name = SourceType.parse(column.source_type, column.kind), written.lower().split("(")[0].split(" ")[0]
    if source is None or source.name not in _SQL:
        return True
    return name in _SQL[source.name][1] and not _only_in_pages(source)


def _only_in_pages(source: SourceType) -> bool:
    """Digits of any size are text in the lake."""
    return source.name == "numeric" and not source.args


def _sql(source: SourceType) -> Callable[[str], str]:
    if source.name == "numeric":
        digits = ",".join(map(str, source.args))
        return lambda c: f"CAST(CAST({c} AS DECIMAL({digits})) AS CHAR)"
    if source.name == "bit":
        width = (source.args or (1,))[0]
        return _SQL["boolean"][0] if width == 1 else lambda c: f"LPAD(BIN({c} + 0), {width}, '0')"
    return _SQL[source.name][0]
