"""The rule of each source type, from all families."""

from __future__ import annotations

from spark.errors import ColumnTypeError
from spark.specs import Column
from spark.types import binary, geometric, numbers, ranges, temporal, text, user_defined
from spark.types.arrays import array_of
from spark.types.rule import LakeType, Rule, SourceType

FAMILIES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("Numbers", numbers.RULES),
    ("Text", text.RULES),
    ("Dates and times", temporal.RULES),
    ("Bytes and bits", binary.RULES),
    ("Ranges", ranges.RULES),
    ("Geometry", geometric.RULES),
    ("User-defined", user_defined.RULES),
)
_BY_NAME = {name: rule for _, rules in FAMILIES for rule in rules for name in rule.types}


def lake_type(column: Column) -> LakeType:
    """The lake type of a source column.

    Raises:
        ColumnTypeError: naming the column, its type and the way out.
    """
    source = SourceType.parse(column.source_type)
    if source is None:
        raise _refused(column, "it is not a type that format_type() writes")
    scalar = _scalar(column, source)
    return array_of(scalar) if source.array else scalar


def _scalar(column: Column, source: SourceType) -> LakeType:
    rule = _BY_NAME.get(source.name) or _BY_NAME.get(source.bare)
    if rule is None:
        return user_defined.ANY_OTHER
    found = rule.build(source) if rule.build else None
    if found is None:
        raise _refused(column, rule.why)
    return found


def _refused(column: Column, reason: str) -> ColumnTypeError:
    return ColumnTypeError(
        f"column {column.name!r} has type {column.source_type}: {reason}; leave the column out (except_column_list) or "
        "capture a cast of it"
    )
