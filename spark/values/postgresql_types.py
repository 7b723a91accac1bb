"""PostgreSQL's types to lake types: text and what is written as text, bytes and bits, ranges, geometry, user-defined, arrays.

Numbers and times have files of their own beside this one. Of types that users and extensions define, the catalogue says of which
kind one is. A domain is its base type (the catalogue query resolves it) and only comes here as an array's element.

Arrays: Debezium flattens nothing and tells nobody: an array of several dimensions arrives as one NULL for each element of the
first dimension, or as Java's name of an array ("[Ljava.lang.String;@7b3db3f1"). So an array of nothing but NULLs, or with
such a name in it, is unfit; a real `{NULL}` is the price. Lower bounds other than 1 are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.values.postgresql_numbers import BOOLEAN, mark_long_numbers, unmark_numbers
from spark.values.type_rule import (
    ARRAY,
    DOUBLES,
    LakeType,
    Refused,
    Rule,
    SourceType,
    as_text,
    binary,
    bytes_as_text,
    long_bytes_as_text,
)


def _name_type(source: SourceType) -> LakeType:
    if source.modes.unknown == "omit":
        raise Refused("without include.unknown.datatypes=true Debezium streams NULL for it")
    return as_text(source)


TEXT_RULES = (
    Rule(
        ("text", "character varying", "character", "bpchar", '"char"'),
        "string",
        "The same characters; blanks that `character(n)` pads with are kept.",
        as_text,
    ),
    Rule(("name",), "string", "The same characters.", _name_type),
    Rule(("citext",), "string", "The same characters; the comparison in the lake minds case.", as_text, extension=True),
    Rule(("uuid",), "string", "Delta has no UUID; the canonical form sorts and compares the same.", as_text),
    Rule(("json", "jsonb"), "string", "The document's own text: numbers keep all their digits.", as_text),
    Rule(("hstore",), "string", "A JSON object of texts and nulls.", as_text, extension=True),
    Rule(
        ("isbn",), "string", "PostgreSQL's text. Other types of `isn` come as bytes, like any base type.", as_text, extension=True
    ),
    Rule(("ltree",), "string", "Its own text form.", as_text, extension=True),
    Rule(("tsvector",), "string", "Its own text form.", as_text),
    Rule(("xml",), "string", "Its own text (not measured: the embedded PostgreSQL has no libxml).", as_text),
    Rule(("inet", "cidr", "macaddr", "macaddr8"), "string", "Their own text form.", as_text),
    Rule(
        (
            *("tsquery", "pg_lsn", "xid", "xid8", "cid", "tid", "regclass", "regcollation", "regconfig", "regdictionary"),
            *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
        ),
        "string",
        "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes).",
        bytes_as_text,
    ),
    Rule(
        ("jsonpath", "pg_snapshot", "txid_snapshot"),
        "string",
        "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes).",
        long_bytes_as_text,
    ),
    Rule(("lquery", "ltxtquery"), "string", "PostgreSQL's text, sent as bytes.", long_bytes_as_text, extension=True),
    Rule(("int2vector", "oidvector"), "", "Debezium sends an empty array for it"),
)


# PostgreSQL moves no value of up to 24 bytes out of its row, and 8 of them are the bits' header.
LONGEST_IN_PLACE = 128


def _bytea(source: SourceType) -> LakeType:
    mode = source.modes.binary
    form = "base64" if mode == "bytes" else ""
    return LakeType("binary", lambda text: binary(text, mode), null_if_unchanged=mode != "bytes", form=form)


def bit(source: SourceType) -> LakeType:
    """One bit as a boolean, more as text."""
    length = source.args[0] if source.args else 1
    if length == 1:
        return BOOLEAN

    def convert(text: Expression) -> Expression:
        """Debezium sends the bits as a little-endian number, without its leading zero bytes."""
        digits = sf.hex(binary(text))
        count = sf.length(digits) / 2
        # Not by `substr` for each byte, which counts from the text's start: n².
        pairs = sf.regexp_extract_all(digits, sf.lit("(..)"), sf.lit(1))
        octets = sf.transform(pairs, lambda pair: sf.lpad(sf.conv(pair, 16, 2), 8, "0"))
        bits = sf.regexp_replace(sf.array_join(sf.reverse(octets), ""), "^0+", "")
        fits = digits.isNotNull() & (sf.length(bits) <= length)
        return sf.when(count == 0, "0" * length).when(fits, sf.lpad(bits, length, "0"))

    return LakeType("string", convert, null_if_unchanged=length > LONGEST_IN_PLACE, form=f"bits {length}")


BINARY_RULES = (
    Rule(("bytea",), "binary", "The same bytes.", _bytea),
    Rule(
        ("bit",),
        "boolean, or string from bit(2) on",
        "One bit is a boolean; more are written as PostgreSQL does: `0010`.",
        bit,
    ),
    Rule(("bit varying",), "", "Debezium leaves its leading zero bits out, and their number cannot be known"),
)


RANGE_RULES = (
    Rule(
        ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
        "string",
        "PostgreSQL's own form: bounds may be infinite, and the range empty.",
        as_text,
    ),
    Rule(
        ("int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"),
        "string",
        "PostgreSQL's own form; Debezium sends its bytes (include.unknown.datatypes).",
        long_bytes_as_text,
    ),
)


ROOT = "$."


def _doubles(**paths: str) -> LakeType:
    """A struct of doubles, each from its place in the JSON object."""

    def convert(text: Expression) -> Expression:
        values = {name: sf.get_json_object(text, path).try_cast("double") for name, path in paths.items()}
        whole = _all_there(list(values.values()))
        return sf.when(whole, sf.struct(*[value.alias(name) for name, value in values.items()]))

    form = f"{DOUBLES}{','.join(f'{name}={path.removeprefix(ROOT)}' for name, path in paths.items())}"
    return LakeType(f"struct<{','.join(f'{name}:double' for name in paths)}>", convert, form=form)


def _all_there(values: Sequence[Expression]) -> Expression:
    answer = values[0].isNotNull()
    for value in values[1:]:
        answer = answer & value.isNotNull()
    return answer


def _wkb(text: Expression) -> Expression:
    return sf.try_to_binary(sf.get_json_object(text, "$.wkb"), sf.lit("base64"))


def _path(_: SourceType) -> LakeType:
    def convert(text: Expression) -> Expression:
        closed = sf.get_json_object(text, "$.extensions.closed").try_cast("boolean")
        wkb = _wkb(text)
        return sf.when(_all_there([wkb, closed]), sf.struct(wkb.alias("wkb"), closed.alias("closed")))

    return LakeType("struct<wkb:binary,closed:boolean>", convert, null_if_unchanged=True)


_WKB = "Well-known binary, which GIS tools read, with the coordinates' own doubles."
GEOMETRIC_RULES = (
    Rule(("point",), "struct<x,y>", "The coordinates' own doubles.", lambda _: _doubles(x="$.x", y="$.y")),
    Rule(("line",), "struct<a,b,c>", "The line's own coefficients.", lambda _: _doubles(a="$.a", b="$.b", c="$.c")),
    Rule(
        ("circle",),
        "struct<x,y,radius>",
        "The circle's own doubles.",
        lambda _: _doubles(x="$.center.x", y="$.center.y", radius="$.radius"),
    ),
    Rule(("lseg", "box"), "binary", _WKB, lambda _: LakeType("binary", _wkb)),
    Rule(("polygon",), "binary", _WKB, lambda _: LakeType("binary", _wkb, null_if_unchanged=True)),
    Rule(("path",), "struct<wkb,closed>", f"{_WKB} Open and closed paths are told apart beside it.", _path),
    Rule(
        ("geometry", "geography", "vector", "halfvec", "sparsevec"),
        "",
        "what Debezium sends for it has not been measured",
        extension=True,
    ),
)


_TEXT = "PostgreSQL's text; Debezium sends its bytes (include.unknown.datatypes)."
BY_KIND = {
    "enum": Rule(("any enum",), "string", "The label.", as_text),
    "composite": Rule(("any composite",), "string", f"{_TEXT} `(1,x)`", long_bytes_as_text),
    "range": Rule(("any other range",), "string", _TEXT, long_bytes_as_text),
    "multirange": Rule(("any other multirange",), "string", _TEXT, long_bytes_as_text),
    "base": Rule(("any other base type",), "string", _TEXT, long_bytes_as_text),
    # PostgreSQL never stores one out of line, so its NULL is a NULL: https://www.postgresql.org/docs/18/storage-toast.html
    "fixed": Rule(("any other base type of fixed length",), "string", f"{_TEXT} `isbn13`, `seg`", bytes_as_text),
    "domain": Rule(("any domain",), "as its base type", "A domain only adds constraints.", long_bytes_as_text),
}
USER_DEFINED_RULES = tuple(BY_KIND.values())


_EXACT = frozenset(
    {
        *("boolean", "smallint", "integer", "bigint", "oid", "real", "double precision", "timestamp without time zone"),
        *("text", "character varying", "character", "bpchar", '"char"', "citext", "uuid", "json", "jsonb", "bytea"),
        *("inet", "cidr", "macaddr", "macaddr8", "hstore"),
        *("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    }
)
# An unchanged TOASTed array of these is told by a placeholder; of all others it arrives as NULL.
_MARKED = frozenset(
    {
        *("text", "character varying", "character", "bpchar", "json", "jsonb"),
        *("integer", "bigint", "date", "uuid", "bytea"),
    }
)
_AS_NULL = " (sent as NULL)"
_BY_NULL = f"arrays with a NULL element{_AS_NULL}"
_LOSES = {
    "numeric": f"arrays with NaN or an infinity{_AS_NULL}",
    "date": "years BC (sent as AD) and 5 to 14 October 1582 (sent ten days late)",
    "timestamp with time zone": "years BC (sent as AD), 5 to 14 October 1582 (sent ten days late) and -infinity",
    "time without time zone": "microseconds (cut to milliseconds) and 24:00 (sent as 00:00)",
    "time with time zone": "the offset, microseconds and 24:00",
    "ltree": _BY_NULL,
    "tsvector": _BY_NULL,
}
_NOT_SENT = frozenset(
    {
        *("money", "name", "bit", "bit varying", "interval", "interval year to month", "interval day to second", "xml"),
        *("point", "line", "lseg", "box", "path", "polygon", "circle", "int2vector", "oidvector"),
    }
)
JAVA_NAME = r"^\[+L?[A-Za-z.]+;@[0-9a-f]+$"
_TIMESTAMP = "timestamp without time zone"
ARRAY_RULES = (
    Rule(
        tuple(f"{name}[]" for name in sorted(_EXACT - {_TIMESTAMP})),
        "array<element>",
        "The elements. An array of several dimensions, or of nothing but NULLs, is unfit: Debezium sends the one as the "
        "other. Lower bounds are not kept.",
    ),
    Rule(
        (f"{_TIMESTAMP}[]",),
        "array<element>",
        "The elements, as above; years 1 to 9999. Debezium sends days before 15 October 1582 by the Julian calendar, and silver "
        "has the database's own. 5 to 24 October 1582 are unfit: two days are sent as one.",
    ),
    *(
        Rule((name,), "array<element>", "The elements, as above.", loses=loses)
        for name, loses in (*((f"{name}[]", loses) for name, loses in _LOSES.items()), ("any other array", _BY_NULL))
    ),
    Rule(tuple(f"{name}[]" for name in sorted(_NOT_SENT)), "", "Debezium leaves arrays of it out, or sends NULL for them"),
)


def losses(source: SourceType) -> str | None:
    """What arrays of this element lose unnoticed: "" for nothing, None where Debezium does not send them at all."""
    if source.name in _NOT_SENT:
        return None
    name = source.bare if source.bare in ("citext", "hstore", "ltree") else source.name
    return "" if name in _EXACT else _LOSES.get(name, _BY_NULL)


def null_instead(source: SourceType) -> str:
    """The arrays of this element that Debezium sends as NULL: "" for none. Where NULL may not be, it stops on one."""
    loses = losses(source) or ""
    return loses.removesuffix(_AS_NULL) if loses.endswith(_AS_NULL) else ""


def array_of(source: SourceType, element: LakeType) -> LakeType:
    """An array whose elements each convert exactly, or no value."""

    def convert(text: Expression) -> Expression:
        items = sf.transform(sf.from_json(mark_long_numbers(text), "array<string>"), unmark_numbers)
        broken = sf.exists(items, lambda item: item.isNotNull() & (element.convert(item).isNull() | item.rlike(JAVA_NAME)))
        typed = (sf.size(items) == 0) | sf.exists(items, lambda item: item.isNotNull())
        return sf.when(~broken & typed, sf.transform(items, element.convert))

    form = f"{ARRAY}{element.form}" if element.form else ""
    return LakeType(f"array<{element.name}>", convert, null_if_unchanged=source.name not in _MARKED, form=form)
