"""A column of the source whose type has changed is several of silver's: one for each type, and a row has its value in one.

    id | amount | amount__string       amount: integer, then text
     1 |      5 |                      from before the change
     2 |        | 5 EUR                from after it

What a row has is the first of them, from the newest on (spark.schema.difference.holders), that is not NULL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spark.specs import Column
from spark.types.type_rules import lake_type

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")


def side_name(column: Column) -> str:
    """The name of the column of silver's for a type that one of the source's has got: `amount__string`."""
    suffix = re.sub(r"[^a-z0-9]+", "_", lake_type(column).name).strip("_")
    return f"{column.name}__{suffix}"


def newest_value(columns: Sequence[tuple[str, str]], wanted: str) -> str:
    """SQL of a row's value in these columns (SQL name and lake type, newest first), as the lake type `wanted`; NULL if it is
    none of that."""
    values = [_as(name, found, wanted) for name, found in columns]
    return f"coalesce({', '.join(values)})" if values else f"CAST(NULL AS {wanted})"


def _as(name: str, found: str, wanted: str) -> str:
    """Silver keeps the wider type where a column has been narrowed in the source; a number that the narrower lacks is none."""
    if wanted.replace(" ", "") == found.replace(" ", ""):
        return name
    cast = f"try_cast({name} AS {wanted})"
    numbers = {found.split("(")[0], wanted.split("(")[0]} <= {*_NUMBERS}
    return f"CASE WHEN {cast} = {name} THEN {cast} END" if numbers else cast
