"""PostgreSQL column types to lake types, and the conversion of what Debezium writes for them.

A conversion takes the JSON leaf as text and gives null for text that does not convert *exactly*: the caller treats
"text, but no value" as an error, so nothing becomes NULL, 0 or a rounded number on the way. The forms were observed
on Debezium 3.7 with decimal.handling.mode=string, time.precision.mode=microseconds, binary.handling.mode=base64,
interval.handling.mode=string, hstore.handling.mode=json.

Out of range on purpose: dates and timestamps outside the years 1 to 9999 (infinity and BC included; Debezium sends
wrapped-around integers for infinity) and NaN in numeric(p,s).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.errors import ColumnTypeError
from spark.specs import Column

Convert = Callable[[Expression], Expression]
FIRST_DAY, LAST_DAY = -719162, 2932896
FIRST_MICRO, LAST_MICRO = -62135596800000000, 253402300799999999
DAY_MICROS = 86_400_000_000

TEXT = frozenset(
    {
        *("text", "character varying", "character", "bpchar", "citext", '"char"', "uuid", "json", "jsonb", "hstore", "ltree"),
        *("inet", "cidr", "macaddr", "macaddr8", "money", "interval", "time with time zone", "tsvector", "tsquery", "xml"),
        *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    }
)
REFUSED = frozenset(
    {
        *("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography", "vector", "record"),
        *("bit", "bit varying", "name", "pg_lsn", "pg_snapshot", "txid_snapshot"),
        *("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
    }
)
REASONS = {"name": "Debezium 3.7 sends NULL for it in streamed changes"}
SHAPE = re.compile(r"^(?P<head>[^(\[]+)(?:\((?P<args>[-\d,\s]+)\))?(?P<tail>[^\[\]]*?)(?P<array>(?:\[\d*\])*)$")


@dataclass(frozen=True)
class LakeType:
    """A Spark SQL type, and how the text of a JSON leaf becomes it."""

    name: str
    convert: Convert


def lake_type(column: Column) -> LakeType:
    """The lake type of a source column.

    Raises:
        ColumnTypeError: naming the column, its type and the way out.
    """
    shape = SHAPE.match(column.source_type.strip())
    if shape is None:
        raise _refused(column, "it is not a type that format_type() writes")
    head = f"{shape['head']}{shape['tail']}".strip()
    args = tuple(int(a) for a in shape["args"].split(",")) if shape["args"] else ()
    scalar = _scalar(column, head, args)
    return _array_of(scalar) if shape["array"] else scalar


def _scalar(column: Column, name: str, args: tuple[int, ...]) -> LakeType:
    if name in SIMPLE:
        return SIMPLE[name]
    if name in TEXT:
        return LakeType("string", lambda text: text)
    if name == "numeric":
        return _numeric(args)
    if name == "bit" and args == (1,):
        return SIMPLE["boolean"]
    bare = name.rsplit(".", 1)[-1].strip('"')
    if name in REFUSED or bare in REFUSED:
        raise _refused(column, REASONS.get(bare, "it has no exact lake type"))
    # Any other name is the user's own type: an enum's label is text; a composite arrives as an object and is refused.
    return LakeType("string", lambda text: sf.when(~text.startswith("{"), text))


def _refused(column: Column, reason: str) -> ColumnTypeError:
    return ColumnTypeError(
        f"column {column.name!r} has type {column.source_type}: {reason}; leave the column out (except_column_list) or "
        "capture a cast of it"
    )


def _numeric(args: tuple[int, ...]) -> LakeType:
    precision, scale = (*args, 0)[:2] if args else (0, 0)
    if not args or precision > 38 or not 0 <= scale <= precision:
        return LakeType("string", lambda text: sf.when(text == "NAN", "NaN").otherwise(text))
    digits = rf"^-?\d+(\.\d{{0,{scale}}}0*)?$"
    kind = f"decimal({precision},{scale})"
    return LakeType(kind, lambda text: sf.when(text.rlike(digits), text.try_cast(kind)))


def _cast(kind: str) -> LakeType:
    return LakeType(kind, lambda text: text.try_cast(kind))


def _boolean(text: Expression) -> Expression:
    return sf.when(text == "true", True).when(text == "false", False)


def _date(text: Expression) -> Expression:
    days = text.try_cast("int")
    return sf.when(days.between(FIRST_DAY, LAST_DAY), sf.date_from_unix_date(days))


def _timestamp(text: Expression) -> Expression:
    micros = text.try_cast("bigint")
    return sf.when(micros.between(FIRST_MICRO, LAST_MICRO), sf.timestamp_micros(micros).cast("timestamp_ntz"))


def _timestamptz(text: Expression) -> Expression:
    moment = text.try_cast("timestamp")
    return sf.when(sf.unix_micros(moment).between(FIRST_MICRO, LAST_MICRO), moment)


def _time(text: Expression) -> Expression:
    micros = text.try_cast("bigint")
    seconds = sf.floor(micros / 1_000_000).cast("bigint")
    parts = sf.format_string(
        "%02d:%02d:%02d.%06d",
        sf.floor(seconds / 3600).cast("bigint"),
        sf.floor(seconds % 3600 / 60).cast("bigint"),
        seconds % 60,
        micros % 1_000_000,
    )
    return sf.when(micros.between(0, DAY_MICROS), parts)


def _binary(text: Expression) -> Expression:
    return sf.try_to_binary(text, sf.lit("base64"))


def _array_of(element: LakeType) -> LakeType:
    def convert(text: Expression) -> Expression:
        items = sf.from_json(text, "array<string>")
        broken = sf.exists(items, lambda item: item.isNotNull() & element.convert(item).isNull())
        return sf.when(~broken, sf.transform(items, element.convert))

    return LakeType(f"array<{element.name}>", convert)


SIMPLE = {
    "boolean": LakeType("boolean", _boolean),
    "smallint": _cast("smallint"),
    "integer": _cast("int"),
    "bigint": _cast("bigint"),
    "oid": _cast("bigint"),
    "real": _cast("float"),
    "double precision": _cast("double"),
    "date": LakeType("date", _date),
    "timestamp without time zone": LakeType("timestamp_ntz", _timestamp),
    "timestamp with time zone": LakeType("timestamp", _timestamptz),
    "time without time zone": LakeType("string", _time),
    "bytea": LakeType("binary", _binary),
}
