"""Rows that a table's `where` leaves out: an event whose row is none of the table's is a delete of its key.

So a row that comes to match is a new row, and one that matches no more is gone, in silver as in a history, whatever the event
was: a row read by a snapshot too. All that follows from the order of a key's events (late ones, moves, folding again) stays as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.delta.conditions import any_of
from spark.errors import SpecError
from spark.kinds.row_conditions import RowCondition
from spark.specs import Column, SilverSpec
from spark.types.type_rules import lake_type

_WHOLE = ("tinyint", "smallint", "int", "bigint")


def condition_values(condition: RowCondition, column: Column) -> frozenset[str]:
    """The values but NULL, as the lake's value of the column is written as text.

    Raises:
        SpecError: one of them is no value of the column's type, or nobody can choose by this type.
    """
    kind, told = lake_type(column).name, f"where: column {column.name!r} of type {column.source_type}"
    found = set[str]()
    for value in condition.values:
        if value is None:
            continue
        try:
            if kind in _WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)")):
                found.add(str(int(value)))
            elif kind == "date":
                found.add(date.fromisoformat(value).isoformat())
            elif kind == "boolean":
                found.add({"true": "true", "false": "false"}[value])
            elif kind == "string":
                found |= _as_held(value, column)
            else:
                raise SpecError(f"{told}: rows are chosen by whole numbers, booleans, dates and texts")
        except (KeyError, ValueError) as error:
            raise SpecError(f"{told}: {value!r} is no value of it") from error
    return frozenset(found)


def _as_held(value: str, column: Column) -> set[str]:
    """Of a character(n) both ways: PostgreSQL's is held with its blanks, MariaDB's and MySQL's ends with none."""
    char = re.match(r"char(?:acter)?(?:\((\d+)\))?$", column.source_type, re.IGNORECASE)
    return {value} if char is None else {value.ljust(int(char[1] or 1)), value.rstrip(" ")}


def is_outside(spec: SilverSpec, gaps: Sequence[Expression | None]) -> Expression | None:
    """Whether an event (c0, ... in the order of the spec) leaves a row that is none of the table's; None: the table has all rows.

    `gaps` as for `spark.silver.problems.absent`: what an event does not say of a column leaves the row where it was.
    """
    places = {column.name: i for i, column in enumerate(spec.columns)}
    found = []
    for each in spec.where:
        i = places[each.column]
        text, listed = sf.col(f"c{i}").cast("string"), sorted(condition_values(each, spec.columns[i]))
        among = sf.coalesce(text.isin(*listed), sf.lit(False)) if listed else sf.lit(False)
        if None in each.values:
            among = among | text.isNull()
        outside, gap = among if each.excluded else ~among, gaps[i]
        found.append(outside if gap is None else outside & ~gap)
    return sf.col("op").isin("c", "u", "r") & any_of(found) if found else None


def outside_in_arrow(spec: SilverSpec, values: dict[str, pa.Array]) -> pa.Array | None:
    """The same of whole rows in Arrow: one boolean per row."""
    columns = {column.name: column for column in spec.columns}
    found = []
    for each in spec.where:
        text, listed = pc.cast(values[each.column], pa.string()), sorted(condition_values(each, columns[each.column]))
        among = pc.is_in(text, value_set=pa.array([*listed, *([None] if None in each.values else [])], pa.string()))
        found.append(among if each.excluded else pc.invert(among))
    return reduce(pc.or_, found) if found else None
