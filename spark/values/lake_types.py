"""The lake type of a column: the rule of each source type, from all families, and what the connector loses of its values.

A column whose type has no exact form is refused by name, with the way out (JobRefusedError).
"""

from __future__ import annotations

import re

from spark.errors import JobRefusedError
from spark.specs import Column
from spark.values import postgresql_numbers, postgresql_times, postgresql_types
from spark.values.handling_modes import Modes
from spark.values.mariadb_types import RULES as MARIADB
from spark.values.mariadb_types import parse as mariadb_type
from spark.values.other_databases import LOSES, REFUSED, TICKS
from spark.values.type_rule import LakeType, Refused, Rule, SourceType


def losses_of_kind(kind: str, modes: Modes) -> str:
    """What the connector loses of a column of this kind under its modes; empty: nothing.

    Raises:
        Refused: no value of it is read exactly.
    """
    if kind in REFUSED:
        raise Refused(REFUSED[kind])
    if kind == TICKS and modes.temporal in ("adaptive", "adaptive_time_microseconds"):
        raise Refused(f"time.precision.mode={modes.temporal} sends it in nanoseconds; take microseconds")
    if kind == TICKS and modes.temporal in ("nanoseconds", "isostring"):
        return ""  # A record with such a digit is unfit.
    return LOSES.get(kind, "")


FAMILIES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Numbers", postgresql_numbers.RULES),
    ("Text", postgresql_types.TEXT_RULES),
    ("Dates and times", postgresql_times.RULES),
    ("Bytes and bits", postgresql_types.BINARY_RULES),
    ("Ranges", postgresql_types.RANGE_RULES),
    ("Geometry", postgresql_types.GEOMETRIC_RULES),
    ("User-defined", postgresql_types.USER_DEFINED_RULES),
    ("Arrays", postgresql_types.ARRAY_RULES),
)
_BUILT_IN = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types if not rule.extension}
_BUILT_IN |= {name: rule for rule in postgresql_numbers.DECLARED for name in rule.types}
_EXTENSION = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types if rule.extension}
_STOPS = "stops the connector, and every table of the source with it"
# By the dialect; every other writes types as PostgreSQL does.
_PARSERS = {"mariadb": mariadb_type}
_RULES = {"mariadb": MARIADB}


def lake_type(column: Column) -> LakeType:
    """The lake type of a source column.

    Raises:
        JobRefusedError: naming the column, its type and the way out.
    """
    if column.kind == "generated":
        raise _refusal(column, "it is a generated column, which the source's log does not have")
    source = _source_type(column)
    if source is None:
        raise _refusal(column, "it is not a type as the catalogue writes one")
    try:
        beyond = losses_of_kind(column.kind, source.modes)
    except Refused as error:
        raise _refusal(column, str(error)) from error
    rule = _rule(column, source)
    try:
        element = rule.build(source) if rule.build else None
    except Refused as error:
        raise _refusal(column, str(error)) from error
    if element is None:
        raise _refusal(column, rule.why)
    loses = postgresql_types.losses(source) if source.array else rule.loses
    if loses is not None:
        loses = "; ".join(filter(None, (loses, element.loses, beyond)))
    if loses is None:
        raise _refusal(column, "Debezium leaves arrays of it out, or sends NULL for them")
    if loses and not column.accepted:
        if source.array and not column.nullable and postgresql_types.null_instead(source):
            loses += f"; in a NOT NULL column one of them {_STOPS}"
        raise _refusal(column, f"Debezium loses {loses}", ", or accept that (accept_inexact)")
    return postgresql_types.array_of(source, element) if source.array else element


_LONG = re.compile(
    r"text|blob|clob|json|bytea|xml|hstore|path|polygon|tsvector|multirange|character varying|geometry|bit|numeric"
)
_LONG_FROM = 10_000


def can_be_long(column: Column) -> bool:
    """Whether one value of the column can have megabytes: its type has no bound, or a large one."""
    source = _source_type(column)
    if source is None:
        return False
    if source.array or not source.args:
        return source.array or _LONG.search(source.name) is not None
    return source.args[0] >= _LONG_FROM


def no_key(column: Column) -> str:
    """Why the column can be part of no key, whatever the table accepts; "" where it can."""
    source = _source_type(column)
    lost = postgresql_types.null_instead(source) if source and source.array else ""
    return f"Debezium sends {lost} as NULL, and such a key {_STOPS}" if lost else ""


def _source_type(column: Column) -> SourceType | None:
    parse = _PARSERS.get(column.dialect, SourceType.parse)
    return parse(column.source_type, column.kind, accepted=column.accepted, modes=column.modes)


def _rule(column: Column, source: SourceType) -> Rule:
    own = _RULES.get(column.dialect)
    if own is not None:
        return own.get(source.name) or Rule((source.name,), "", "what Debezium sends for it has not been measured")
    rule = _BUILT_IN.get(source.name) or _EXTENSION.get(source.bare) or postgresql_types.BY_KIND.get(source.kind)
    if rule is None:
        raise _refusal(column, "the catalogue does not say what kind of type it is")
    return rule


def _refusal(column: Column, reason: str, way_out: str = "") -> JobRefusedError:
    return JobRefusedError(
        f"column {column.name!r} has type {column.source_type}: {reason}; leave the column out (except_column_list), "
        f"capture a cast of it{way_out}"
    )
