"""Why an event cannot be folded, and which of its columns it does not hold. Both are plain columns of the batch.

`problem` is null for an event that can be folded. `absent` is null for an event that holds its whole row, and else the
numbers of the columns that it says nothing about: their values are those that the row had before.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.delta.conditions import any_of
from spark.envelopes.leaves import leaf
from spark.kinds.record_marks import TOO_LARGE
from spark.positions.layout import EPOCH_WIDTH
from spark.positions.source_kinds import connector
from spark.silver.unavailable import forms, null_may_mean_unchanged
from spark.specs import Column, SilverSpec
from spark.types.type_rules import lake_type

ENVELOPE = "envelope"
"""The record is no event that this table has a rule for."""
LARGE = "large"
"""The record is too large: bronze has its place, its size and its digest."""
KEY = "key"
"""The event does not say which row it is about."""
VALUE = "value"
"""A value does not fit its column's type exactly."""
UNCLEAR = "unclear"
"""A NULL may mean that the value was not changed."""
NO_ROW = "no_row"
"""The event holds a part of a row, and there is no row to take the rest from."""
AFTER_PROBLEM = "after_problem"
"""The event holds a part of a row, and the event before it that should hold the rest is in quarantine."""
MOVED = "moved"
"""The event gives a row another key without all of its values, and the row under the old key is not known."""
FOUND_NO_ROW = "the table has no row equal to the event's before-image"
FUTURE = "future"
"""The event's position lies beyond what the source's log had reached when it was asked, after the event had been read."""
PROBLEM = "struct<error_class: string, column: string, message: string>"


def gap(column: Column, index: int, spec: SilverSpec) -> Expression:
    """Whether the event says nothing about the column: an update without it, or with a placeholder in its place, or with NULL
    where that means as much."""
    left_out = ~sf.coalesce(sf.get("present", sf.lit(index)), sf.lit(True))
    kind = lake_type(column).name
    # Only a value that can be stored out of line can be left where it is.
    if kind in ("string", "binary") or kind.startswith("array"):
        text = sf.col(leaf(index))
        # A snapshot's row is whole: what looks like the placeholder there is a value.
        known = text.isin(*forms(spec.unavailable)) & (sf.col("op") != "r")
        left_out = left_out | sf.coalesce(sf.array_contains("unchanged", text), known, sf.lit(False))
    if column.name in spec.ignore_null_updates:
        left_out = left_out | (sf.col(leaf(index)).isNull() & (sf.col("op") != "d"))
    if spec.columns_to_update and column.name != spec.columns_to_update:
        listed = sf.col(leaf([c.name for c in spec.columns].index(spec.columns_to_update)))
        about = sf.array_contains(sf.from_json(listed, "array<string>"), column.event_field)
        left_out = left_out | ~sf.coalesce(about, sf.lit(True))
    return left_out


def absent(gaps: Sequence[Expression | None]) -> Expression:
    """The numbers of the columns whose gap is true; null where there is none."""
    known = {i: gap for i, gap in enumerate(gaps) if gap is not None}
    if not known:
        return sf.lit(None).cast("array<int>")
    numbers = sf.array_compact(sf.array(*[sf.when(gap, sf.lit(i)) for i, gap in known.items()]))
    return sf.when(any_of(list(known.values())), numbers)


def problem(spec: SilverSpec, *, gaps: Sequence[Expression | None]) -> Expression:
    """The first reason against an event that `changes` is converting; `gaps` as for `absent`."""
    op = sf.col("op")
    unreadable = sf.col("unreadable")
    found = [
        sf.when(unreadable.startswith(TOO_LARGE), problem_value(LARGE, unreadable)),
        sf.when(unreadable.isNotNull(), problem_value(ENVELOPE, unreadable)),
        *_from_future(spec),
    ]
    for i, column in enumerate(spec.columns):
        text, value = sf.col(leaf(i)), sf.col(f"c{i}")
        here = gaps[i]
        held = sf.lit(True) if here is None else ~here
        what = f"column {column.name!r} of type {column.source_type}"
        shown = sf.concat(sf.lit(f"{what}, value '"), sf.left(text, sf.lit(200)), sf.lit("': it does not fit the type"))
        found.append(sf.when(held & text.isNotNull() & value.isNull(), problem_value(VALUE, shown, column)))
        if column.name in spec.keys and not column.nullable:
            found.append(
                sf.when(text.isNull() & (op != "t"), problem_value(KEY, sf.lit(f"{what}: the event has no value for it"), column))
            )
        if connector(spec.connector).null_may_mean_unchanged and null_may_mean_unchanged(column):
            unclear = held & text.isNull() & (op == "u") & ~sf.col("has_before")
            hint = f"{what} is NULL, which Debezium also sends for an unchanged value: ALTER TABLE ... REPLICA IDENTITY FULL"
            found.append(sf.when(unclear, problem_value(UNCLEAR, sf.lit(hint), column)))
    return sf.coalesce(*found)


def _from_future(spec: SilverSpec) -> list[Expression]:
    """Against what no log of this source can have said yet; positions of earlier epochs sort below."""
    if not spec.log_end:
        return []
    epoch = sf.substring("position", 1, EPOCH_WIDTH + 1)
    places = [sf.concat(epoch, sf.substring("position", at, width)) for at, width in connector(spec.connector).places]
    beyond = any_of([place > sf.lit(spec.log_end) for place in places])
    why = f", and the source's log ended at {spec.log_end} after it had been read: the source has not written it"
    said = sf.concat(sf.lit("the event's position is "), sf.col("position"), sf.lit(why))
    return [sf.when(beyond, problem_value(FUTURE, said))]


def problem_value(error_class: str, message: Expression, column: Column | None = None) -> Expression:
    """A problem as a value."""
    name = sf.lit(column.name if column else None).cast("string")
    return sf.struct(sf.lit(error_class).alias("error_class"), name.alias("column"), message.alias("message"))
