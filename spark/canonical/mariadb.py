"""MariaDB's types: the same texts from its SQL as Spark writes of silver's columns.

Text is brought to UTF-8 and compared by its code points. No text depends on the session: conditions on keys are read in the
connector's, whose time zone and mode are others.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import Form, Incomparable, plain, prefix_length
from spark.canonical.number_forms import bits, one_zero
from spark.specs import Column
from spark.types.mariadb.columns import parse
from spark.types.rule import SourceType

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


def form(column: Column) -> Form | Incomparable:
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
