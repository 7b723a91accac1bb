"""Arrays: which elements Debezium sends exactly, and which it does not.

It flattens nothing and tells nobody: an array of several dimensions arrives as one NULL for each element of the first
dimension, or as Java's name of an array ("[Ljava.lang.String;@7b3db3f1"). So an array of nothing but NULLs, or with
such a name in it, is unfit; a real `{NULL}` is the price. Lower bounds other than 1 are not kept.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.json_numbers import mark_long_numbers, unmark_numbers
from spark.types.rule import ARRAY, LakeType, Rule, SourceType

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
RULES = (
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
        told = (sf.size(items) == 0) | sf.exists(items, lambda item: item.isNotNull())
        return sf.when(~broken & told, sf.transform(items, element.convert))

    form = f"{ARRAY}{element.form}" if element.form else ""
    return LakeType(f"array<{element.name}>", convert, null_if_unchanged=source.name not in _MARKED, form=form)
