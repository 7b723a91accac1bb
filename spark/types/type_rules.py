"""The rule of each source type, from all families."""

from __future__ import annotations

from spark.errors import ColumnTypeError
from spark.specs import Column
from spark.types import arrays, binary, geometric, numbers, other_databases, ranges, temporal, text, user_defined
from spark.types.mariadb.columns import parse as mariadb_type
from spark.types.mariadb.type_rules import RULES as MARIADB
from spark.types.rule import LakeType, Refused, Rule, SourceType

FAMILIES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Numbers", numbers.RULES),
    ("Text", text.RULES),
    ("Dates and times", temporal.RULES),
    ("Bytes and bits", binary.RULES),
    ("Ranges", ranges.RULES),
    ("Geometry", geometric.RULES),
    ("User-defined", user_defined.RULES),
    ("Arrays", arrays.RULES),
)
_BUILT_IN = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types if not rule.extension}
_BUILT_IN |= {name: rule for rule in numbers.DECLARED for name in rule.types}
_EXTENSION = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types if rule.extension}
_STOPS = "stops the connector, and every table of the source with it"
# By the dialect; every other writes types as PostgreSQL does.
_PARSERS = {"mariadb": mariadb_type}
_RULES = {"mariadb": MARIADB}


def lake_type(column: Column) -> LakeType:
    """The lake type of a source column.

    Raises:
        ColumnTypeError: naming the column, its type and the way out.
    """
    if column.kind == "generated":
        raise _refusal(column, "it is a generated column, which the source's log does not have")
    source = _source_type(column)
    if source is None:
        raise _refusal(column, "it is not a type as the catalogue writes one")
    try:
        beyond = other_databases.losses(column.kind, source.modes)
    except Refused as error:
        raise _refusal(column, str(error)) from error
    rule = _rule(column, source)
    try:
        element = rule.build(source) if rule.build else None
    except Refused as error:
        raise _refusal(column, str(error)) from error
    if element is None:
        raise _refusal(column, rule.why)
    loses = arrays.losses(source) if source.array else rule.loses
    if loses is not None:
        loses = "; ".join(filter(None, (loses, element.loses, beyond)))
    if loses is None:
        raise _refusal(column, "Debezium leaves arrays of it out, or sends NULL for them")
    if loses and not column.accepted:
        if source.array and not column.nullable and arrays.null_instead(source):
            loses += f"; in a NOT NULL column one of them {_STOPS}"
        raise _refusal(column, f"Debezium loses {loses}", ", or accept that (accept_inexact)")
    return arrays.array_of(source, element) if source.array else element


def no_key(column: Column) -> str:
    """Why the column can be part of no key, whatever the table accepts; "" where it can."""
    source = _source_type(column)
    lost = arrays.null_instead(source) if source and source.array else ""
    return f"Debezium sends {lost} as NULL, and such a key {_STOPS}" if lost else ""


def _source_type(column: Column) -> SourceType | None:
    parse = _PARSERS.get(column.dialect, SourceType.parse)
    return parse(column.source_type, column.kind, accepted=column.accepted, modes=column.modes)


def _rule(column: Column, source: SourceType) -> Rule:
    own = _RULES.get(column.dialect)
    if own is not None:
        return own.get(source.name) or Rule((source.name,), "", "what Debezium sends for it has not been measured")
    found = _BUILT_IN.get(source.name) or _EXTENSION.get(source.bare) or user_defined.BY_KIND.get(source.kind)
    if found is None:
        raise _refusal(column, "the catalogue does not say what kind of type it is")
    return found


def _refusal(column: Column, reason: str, way_out: str = "") -> ColumnTypeError:
    return ColumnTypeError(
        f"column {column.name!r} has type {column.source_type}: {reason}; leave the column out (except_column_list), "
        f"capture a cast of it{way_out}"
    )
