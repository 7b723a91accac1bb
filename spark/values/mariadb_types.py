"""MariaDB's types to lake types: numbers, text, dates and times, bytes and bits, spatial.

A column type is read as MariaDB's information_schema.columns.column_type writes it, and taken apart: `bigint(20) unsigned
zerofill` is `bigint unsigned` with (20,), since zerofill only pads what is shown and implies unsigned; `enum('a','it''s')` is
`enum`; `decimal(65,30)` is `decimal` with (65, 30).

Debezium sends zero dates (`0000-00-00`, `2024-00-15`) as NULL, or as 1970-01-01 where the column is NOT NULL: nobody can tell
any more. So a connector is only started where the server refuses them and no table holds one (docs/reference/mariadb.md).
Spatial values are well-known binary, which GIS tools read, with the reference system beside it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.values.handling_modes import Modes
from spark.values.postgresql_numbers import UNSIGNED_BIGINT, numeric, unsigned_bigint, year
from spark.values.postgresql_times import FIRST_MICRO, LAST_MICRO, date, from_nanos, timestamptz
from spark.values.postgresql_types import bit
from spark.values.type_rule import LakeType, Refused, Rule, SourceType, as_text, binary, cast

_SHAPE = re.compile(r"^(?P<name>[a-z0-9]+)\s*(?:\((?P<args>.*)\))?\s*(?P<flags>[a-z0-9 ]*)$", re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")
ODD_LABELS = "enum or set with a comma or backslash in a label"
_NUMBERS = re.compile(r"^\d+(,\s*\d+)?$")


def parse(text: str, kind: str = "", *, accepted: bool = False, modes: str = "") -> SourceType | None:
    """None for text that is no type. `kind` is the character set of a column that has one."""
    shape = _SHAPE.match(text.strip())
    if shape is None:
        return None
    if shape["name"] in ("enum", "set") and any(odd in label for label in _LABEL.findall(shape["args"] or "") for odd in ",\\"):
        return SourceType(ODD_LABELS, (), False, kind, accepted, Modes.parse(modes))
    flags = shape["flags"].split()
    unsigned = " unsigned" if "unsigned" in flags or "zerofill" in flags else ""
    numbers = shape["args"] or ""
    args = tuple(int(a) for a in numbers.split(",")) if _NUMBERS.match(numbers) else ()
    return SourceType(f"{shape['name']}{unsigned}", args, False, kind, accepted, Modes.parse(modes))


NUMBER_RULES = (
    Rule(("tinyint",), "smallint", "The same values, those of tinyint(1) and BOOLEAN too.", cast("smallint")),
    Rule(("tinyint unsigned",), "smallint", "0 to 255.", cast("smallint")),
    Rule(("smallint",), "smallint", "The same range.", cast("smallint")),
    Rule(("smallint unsigned",), "int", "0 to 65535 do not fit a smallint.", cast("int")),
    Rule(("mediumint", "mediumint unsigned"), "int", "Three bytes fit an int, unsigned too.", cast("int")),
    Rule(("int",), "int", "The same range.", cast("int")),
    Rule(("int unsigned",), "bigint", "0 to 4294967295 do not fit an int.", cast("bigint")),
    Rule(("bigint",), "bigint", "The same range.", cast("bigint")),
    Rule(
        ("bigint unsigned",),
        UNSIGNED_BIGINT,
        "0 to 18446744073709551615 do not fit a bigint. `unsigned: long` sends the upper half as negative numbers, which are "
        "read back.",
        unsigned_bigint,
    ),
    Rule(
        ("decimal", "decimal unsigned"),
        "decimal(p,s) or string",
        "Up to 38 digits are a decimal in Delta; more are kept as text with all their digits.",
        lambda source: replace(numeric(source), loses=""),  # MariaDB has no NaN
    ),
    Rule(("double", "double unsigned"), "double", "The same IEEE 754 values.", cast("double")),
    Rule(
        ("float", "float unsigned"),
        "float",
        "The same IEEE 754 values, as far as they come.",
        cast("float"),
        loses="what a snapshot reads beyond six digits (MariaDB writes no more of a float as text)",
    ),
    Rule(
        ("year",),
        "int",
        "The year. 0000 is streamed as 1900, which is no year that the type has, and read back; a snapshot fails on it, "
        "though the column is left out. So `cdc preflight` and `cdc apply` look for it in tables that are yet to be read.",
        year,
    ),
)


TEXT_RULES = (
    Rule(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
        "string",
        "The same characters, whatever the column's character set. JSON is longtext in MariaDB: the document's own text.",
        as_text,
    ),
    Rule(("enum",), "string", "The label.", as_text),
    Rule(("set",), "string", "The labels, with commas between them, as MariaDB shows them.", as_text),
    Rule(
        ("uuid",),
        "string",
        "The canonical form. Streamed, one that ends in 00 is sent shifted, with 00 in front: records whose value begins with 00 "
        "are unfit, unless the table's `accept_inexact` names the column.",
        lambda source: (
            as_text(source)
            if source.accepted
            else LakeType("string", lambda text: sf.when(~text.startswith("00"), text), form="uuid but 00")
        ),
    ),
    Rule(
        (ODD_LABELS,),
        "",
        "Debezium streams such a label with backslashes that it does not have; name labels without commas and backslashes",
    ),
    Rule(
        ("inet4", "inet6"),
        "",
        "Debezium cannot parse the definition of a table that has such a column, and its connector stops: leaving the column out "
        "does not help, keep the address in a varchar",
    ),
)


LONGEST = ((838 * 60 + 59) * 60 + 60) * 1_000_000 - 1


def _datetime(source: SourceType) -> LakeType:
    mode, digits = source.modes.temporal, source.args[0] if source.args else 0
    if mode == "isostring":
        shape = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?$"
        return LakeType("timestamp_ntz", lambda t: sf.when(t.rlike(shape), sf.rtrim(t, sf.lit("Z")).try_cast("timestamp_ntz")))
    if mode == "connect" and digits > 3:
        raise Refused("time.precision.mode=connect cuts it to milliseconds")

    def convert(text: Expression) -> Expression:
        count = text.try_cast("bigint")
        if mode == "nanoseconds":
            count = from_nanos(text)
        elif mode == "connect" or (mode == "adaptive_time_microseconds" and digits <= 3):
            count = sf.try_multiply(count, sf.lit(1000))
        return sf.when(count.between(FIRST_MICRO, LAST_MICRO), sf.timestamp_micros(count).cast("timestamp_ntz"))

    far = "years before 1678 and after 2261 (sent wrapped around)" if mode == "nanoseconds" else ""
    short = mode == "adaptive_time_microseconds" and digits <= 3
    form = "millis" if short else "micros" if mode in ("adaptive_time_microseconds", "microseconds") else ""
    return LakeType("timestamp_ntz", convert, loses=far, form=form)


def _time(source: SourceType) -> LakeType:
    if source.modes.temporal != "adaptive_time_microseconds":
        raise Refused(f"time.precision.mode={source.modes.temporal} has no negative times and none beyond 24 hours")

    def convert(text: Expression) -> Expression:
        count = text.try_cast("bigint")
        size = sf.abs(count)
        seconds = sf.call_function("div", size, sf.lit(1_000_000))
        whole = sf.format_string(
            "%02d:%02d:%02d.%06d",
            sf.call_function("div", seconds, sf.lit(3600)),
            sf.call_function("div", seconds % 3600, sf.lit(60)),
            seconds % 60,
            size % 1_000_000,
        )
        return sf.when(size <= LONGEST, sf.concat(sf.when(count < 0, "-").otherwise(""), whole))

    return LakeType("string", convert, form="span")


def _moment(text: Expression) -> Expression:
    """The type begins one second after 1970 does: what comes as that moment is a zero date."""
    return sf.when(text != EPOCH, timestamptz(text))


EPOCH = "1970-01-01T00:00:00Z"
_ZERO = "Zero dates are refused before the connector starts."
TEMPORAL_RULES = (
    Rule(("date",), "date", f"Years 1 to 9999. {_ZERO}", date),
    Rule(("datetime",), "timestamp_ntz", f"A wall clock's time, without a zone. {_ZERO}", _datetime),
    Rule(
        ("timestamp",),
        "timestamp",
        f"A moment, in UTC. {_ZERO}",
        lambda _: LakeType("timestamp", _moment, form="instant but epoch"),
    ),
    Rule(("time",), "string", "Delta has no time of day, and this one goes from -838:59:59 to 838:59:59.", _time),
)


def _bytes(source: SourceType) -> LakeType:
    mode = source.modes.binary
    return LakeType("binary", lambda text: binary(text, mode), form="base64" if mode == "bytes" else "")


BINARY_RULES = (
    Rule(
        ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
        "binary",
        "The same bytes; binary(n) with the zeros that fill it up.",
        _bytes,
    ),
    Rule(("bit",), "boolean, or string from bit(2) on", "One bit is a boolean; more are written out: `0010`.", bit),
)


def _shape(text: Expression) -> Expression:
    wkb = sf.try_to_binary(sf.get_json_object(text, "$.wkb"), sf.lit("base64"))
    srid = sf.get_json_object(text, "$.srid").try_cast("int")
    return sf.when(
        wkb.isNotNull() & (sf.length(wkb) > 0),
        sf.struct(wkb.alias("wkb"), sf.coalesce(srid, sf.lit("0").try_cast("int")).alias("srid")),
    )


SPATIAL_RULES = (
    Rule(
        (
            *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
            "geometrycollection",
        ),
        "struct<wkb,srid>",
        "The coordinates' own doubles and the reference system's number.",
        lambda _: LakeType("struct<wkb:binary,srid:int>", _shape),
    ),
)


FAMILIES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Numbers", NUMBER_RULES),
    ("Text", TEXT_RULES),
    ("Dates and times", TEMPORAL_RULES),
    ("Bytes and bits", BINARY_RULES),
    ("Spatial", SPATIAL_RULES),
)
RULES = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types}
