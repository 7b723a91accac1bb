"""Bronze rows to typed changes: one row per event, with the key, the after-image and its place in the order.

Columns travel as c0, c1, ... in the order of the spec, so that no identifier of the source meets a SQL expression.
`problem` says why an event cannot be folded, and is null where it can; `absent` has the numbers of the columns that
it does not hold (a TOASTed value comes as Debezium's placeholder, whose forms are here). An event whose row the
table's `where` leaves out is a delete of its key, so a row that comes to match is new and one that matches no more is
gone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.events.positions import EPOCH_WIDTH
from spark.events.record_readers import connector
from spark.events.text_leaves import leaf, leaves
from spark.record_formats import TOO_LARGE
from spark.specs import Column, RowCondition, SilverSpec
from spark.table.spark_plans import any_of
from spark.values.lake_types import lake_type
from spark.values.type_rule import LakeType


def placeholder_forms(placeholder: str) -> tuple[str, ...]:
    """Every JSON leaf, as text, that means "unchanged" under this placeholder.

    Observed on Debezium 3.7.0.Final with PostgreSQL 18 and REPLICA IDENTITY DEFAULT, of a TOASTed value that an UPDATE
    did not change (`unavailable.value.placeholder` = P, binary.handling.mode=bytes, hstore.handling.mode=json):

        text, varchar, json, jsonb, numeric, tsvector    P
        bytea                                            P's bytes in base64
        hstore                                           {"P":"P"}
        text[], varchar[], json[], jsonb[]               ["P"]
        bytea[]                                          [P's bytes in base64]
        integer[], bigint[], date[]                      the bytes of P as numbers
        uuid[]                                           [the name-based UUID of P]
        any other array, bit, path, polygon, multiranges,
        composites and whatever comes as bytes of text   null: not to be told from a real NULL (spark.values tells which)

    In a NOT NULL column such a null stops the connector. With REPLICA IDENTITY FULL the old value is sent in all cases.
    (binary.handling.mode=base64 or hex sends null for bytea as well: that is why the connector uses `bytes`, which JSON
    carries as base64 all the same.)
    """
    raw = placeholder.encode()
    binary = base64.b64encode(raw).decode()
    # java.util.UUID.nameUUIDFromBytes: MD5 of the bytes alone, without a name space.
    named = str(uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))
    shapes = ([placeholder], [binary], list(raw), [named], {placeholder: placeholder})
    return (placeholder, binary, *(json.dumps(shape, separators=(",", ":"), ensure_ascii=False) for shape in shapes))


def null_may_mean_unchanged(column: Column) -> bool:
    """Whether Debezium sends NULL for an unchanged value of this type, so that NULL alone says nothing."""
    return lake_type(column).null_if_unchanged


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
        is_placeholder = text.isin(*placeholder_forms(spec.unavailable)) & (sf.col("op") != "r")
        left_out = left_out | sf.coalesce(sf.array_contains("unchanged", text), is_placeholder, sf.lit(False))
    if column.name in spec.ignore_null_updates:
        left_out = left_out | (sf.col(leaf(index)).isNull() & (sf.col("op") != "d"))
    if spec.columns_to_update and column.name != spec.columns_to_update:
        listed = sf.col(leaf([c.name for c in spec.columns].index(spec.columns_to_update)))
        about = sf.array_contains(sf.from_json(listed, "array<string>"), column.event_field)
        left_out = left_out | ~sf.coalesce(about, sf.lit(True))
    return left_out


def absent(gaps: Sequence[Expression | None]) -> Expression:
    """The numbers of the columns whose gap is true; null where there is none.

    Null is an event that holds its whole row; what it says nothing about has the values that the row had before.
    """
    gaps_there = {i: gap for i, gap in enumerate(gaps) if gap is not None}
    if not gaps_there:
        return sf.lit(None).cast("array<int>")
    numbers = sf.array_compact(sf.array(*[sf.when(gap, sf.lit(i)) for i, gap in gaps_there.items()]))
    return sf.when(any_of(list(gaps_there.values())), numbers)


def problem(spec: SilverSpec, *, gaps: Sequence[Expression | None]) -> Expression:
    """The first reason against an event that `changes` is converting; `gaps` as for `absent`."""
    op = sf.col("op")
    unreadable = sf.col("unreadable")
    problems = [
        sf.when(unreadable.startswith(TOO_LARGE), problem_value(LARGE, unreadable)),
        sf.when(unreadable.isNotNull(), problem_value(ENVELOPE, unreadable)),
        *_from_future(spec),
    ]
    for i, column in enumerate(spec.columns):
        text, value = sf.col(leaf(i)), sf.col(f"c{i}")
        here = gaps[i]
        is_held = sf.lit(True) if here is None else ~here
        what = f"column {column.name!r} of type {column.source_type}"
        shown = sf.concat(sf.lit(f"{what}, value '"), sf.left(text, sf.lit(200)), sf.lit("': it does not fit the type"))
        problems.append(sf.when(is_held & text.isNotNull() & value.isNull(), problem_value(VALUE, shown, column)))
        if column.name in spec.keys and not column.nullable:
            problems.append(
                sf.when(text.isNull() & (op != "t"), problem_value(KEY, sf.lit(f"{what}: the event has no value for it"), column))
            )
        if connector(spec.connector).null_may_mean_unchanged and null_may_mean_unchanged(column):
            unclear = is_held & text.isNull() & (op == "u") & ~sf.col("has_before")
            hint = f"{what} is NULL, which Debezium also sends for an unchanged value: ALTER TABLE ... REPLICA IDENTITY FULL"
            problems.append(sf.when(unclear, problem_value(UNCLEAR, sf.lit(hint), column)))
    return sf.coalesce(*problems)


def _from_future(spec: SilverSpec) -> list[Expression]:
    """Against what no log of this source can have said yet; positions of earlier epochs sort below."""
    if not spec.log_end:
        return []
    epoch = sf.substring("position", 1, EPOCH_WIDTH + 1)
    places = [sf.concat(epoch, sf.substring("position", at, width)) for at, width in connector(spec.connector).places]
    beyond = any_of([position > sf.lit(spec.log_end) for position in places])
    why = f", and the source's log ended at {spec.log_end} after it had been read: the source has not written it"
    message = sf.concat(sf.lit("the event's position is "), sf.col("position"), sf.lit(why))
    return [sf.when(beyond, problem_value(FUTURE, message))]


def problem_value(error_class: str, message: Expression, column: Column | None = None) -> Expression:
    """A problem as a value."""
    name = sf.lit(column.name if column else None).cast("string")
    return sf.struct(sf.lit(error_class).alias("error_class"), name.alias("column"), message.alias("message"))


_WHOLE = ("tinyint", "smallint", "int", "bigint")


def condition_values(condition: RowCondition, column: Column) -> frozenset[str]:
    """The values but NULL, as the lake's value of the column is written as text.

    Raises:
        JobRefusedError: one of them is no value of the column's type, or nobody can choose by this type.
    """
    kind, described = lake_type(column).name, f"where: column {column.name!r} of type {column.source_type}"
    texts = set[str]()
    for value in condition.values:
        if value is None:
            continue
        try:
            if kind in _WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)")):
                texts.add(str(int(value)))
            elif kind == "date":
                texts.add(date.fromisoformat(value).isoformat())
            elif kind == "boolean":
                texts.add({"true": "true", "false": "false"}[value])
            elif kind == "string":
                # Of a character(n) both ways: PostgreSQL's is held with its blanks, MariaDB's and MySQL's ends with none.
                char = re.match(r"char(?:acter)?(?:\((\d+)\))?$", column.source_type, re.IGNORECASE)
                texts |= {value} if char is None else {value.ljust(int(char[1] or 1)), value.rstrip(" ")}
            else:
                raise JobRefusedError(f"{described}: rows are chosen by whole numbers, booleans, dates and texts")
        except (KeyError, ValueError) as error:
            raise JobRefusedError(f"{described}: {value!r} is no value of it") from error
    return frozenset(texts)


def is_outside(spec: SilverSpec, gaps: Sequence[Expression | None]) -> Expression | None:
    """Whether an event (c0, ... in the order of the spec) leaves a row that is none of the table's; None: the table has all rows.

    `gaps` as for `absent`: what an event does not say of a column leaves the row where it was.

    Such an event is a delete of its key, whatever it was: a row read by a snapshot too. All that follows from the order
    of a key's events (late ones, moves, folding again) stays as it is, in silver as in a history.
    """
    places = {column.name: i for i, column in enumerate(spec.columns)}
    outsides = []
    for condition in spec.where:
        i = places[condition.column]
        text, listed = sf.col(f"c{i}").cast("string"), sorted(condition_values(condition, spec.columns[i]))
        among = sf.coalesce(text.isin(*listed), sf.lit(False)) if listed else sf.lit(False)
        if None in condition.values:
            among = among | text.isNull()
        outside, gap = among if condition.excluded else ~among, gaps[i]
        outsides.append(outside if gap is None else outside & ~gap)
    return sf.col("op").isin("c", "u", "r") & any_of(outsides) if outsides else None


def outside_in_arrow(
    spec: SilverSpec, values: Mapping[str, pa.Array], gaps: Mapping[str, np.ndarray] = MappingProxyType({})
) -> pa.Array | None:
    """The same in Arrow: one boolean per row; `gaps` are by column the rows that do not hold it."""
    columns = {column.name: column for column in spec.columns}
    outsides = []
    for condition in spec.where:
        text, listed = (
            pc.cast(values[condition.column], pa.string()),
            sorted(condition_values(condition, columns[condition.column])),
        )
        among = pc.is_in(text, value_set=pa.array([*listed, *([None] if None in condition.values else [])], pa.string()))
        outside, gap = among if condition.excluded else pc.invert(among), gaps.get(condition.column)
        outsides.append(outside if gap is None else pc.and_(outside, pa.array(~gap)))
    return reduce(pc.or_, outsides) if outsides else None


def slot(index: int) -> str:
    """The internal name of the spec's column number `index`."""
    return f"c{index}"


def key_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the key columns, in key order."""
    names = [c.name for c in spec.columns]
    return [slot(names.index(k)) for k in spec.keys]


def lake_types(spec: SilverSpec) -> list[LakeType]:
    """The lake type of each column of the spec."""
    return [lake_type(column) for column in spec.columns]


def decode_changes(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """Typed changes of bronze rows (tombstones must be gone): c0.., the meta columns, topic, partition, offset.

    Identifiers of the source meet no SQL expression before the very end. `problem` and `absent` cost no extra pass over
    the data.
    """
    image = leaves(events, spec)
    keys = set(spec.keys)
    gaps = [gap(column, i, spec) if column.name not in keys else None for i, column in enumerate(spec.columns)]
    marked = image.select("*", *[g.alias(f"g{i}") for i, g in enumerate(gaps) if g is not None])
    gap_columns = [None if g is None else sf.col(f"g{i}") for i, g in enumerate(gaps)]
    values = [kind.convert(sf.col(leaf(i))) for i, kind in enumerate(lake_types(spec))]
    kept_values = [value if g is None else sf.when(~g, value) for value, g in zip(values, gap_columns, strict=True)]
    typed = marked.select("*", *[value.alias(slot(i)) for i, value in enumerate(kept_values)])
    outside = is_outside(spec, gap_columns)
    op = sf.col("op") if outside is None else sf.when(outside, "d").otherwise(sf.col("op"))
    absent_columns = sf.when(op != "d", absent(gap_columns))
    # A row that arrives in parts is no create that lost values on its way (spark.silver.key_changes).
    op = sf.when((sf.col("op") == "c") & absent_columns.isNotNull(), "u").otherwise(sf.col("op")) if spec.partial else op
    return typed.select(
        *("topic", "partition", "offset", "snapshot"),
        *[slot(i) for i in range(len(spec.columns))],
        sf.col("position").alias("_cdc_position"),
        op.alias("_cdc_op"),
        sf.col("source_ts").alias("_cdc_source_ts"),
        sf.col("tx_id").alias("_cdc_tx_id"),
        absent_columns.alias("absent"),
        problem(spec, gaps=gap_columns).alias("problem"),
    )
