"""Debezium's JSON to typed changes by Arrow: a table's new records with its columns, and the columns that silver adds.

The columns are those of spark.silver.typed_changes. What is no whole row, no part of one and no delete raises
LeftToSparkError with its reason, and commits nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.errors import LeftToSparkError
from spark.events.arrow_records import keep_rows, leave_any, parse_objects
from spark.events.positions import EPOCH_WIDTH
from spark.events.record_readers import connector
from spark.record_formats import UNCHANGED_HEADER
from spark.silver.row_fold import PROBLEM_TYPE, list_numbers
from spark.silver.typed_changes import null_may_mean_unchanged, outside_in_arrow, placeholder_forms, slot
from spark.specs import Column, SilverSpec
from spark.values.arrow_forms import ArrowForm, arrow_form
from spark.values.lake_types import lake_type
from spark.values.missing_values import missing_leaf

META = {"_cdc_position": "position", "_cdc_op": "op", "_cdc_source_ts": "source_ts", "_cdc_tx_id": "tx_id"}
"""Silver's own columns, and bronze's from which they come."""
ROW_OPS = ("c", "u", "d", "r")
_NO_ROW = ""
"""Beside a row's fields: whether there is none."""


@dataclass(frozen=True)
class Field:
    """A column of the table and how its leaf is read."""

    column: Column
    form: ArrowForm

    @property
    def name(self) -> str:
        """The leaf's name in an event."""
        return self.column.event_field


def fields_of(spec: SilverSpec) -> list[Field]:
    """The spec's columns.

    Raises:
        LeftToSparkError: only Spark reads one of them.
    """
    return [_field(column) for column in spec.columns]


def _field(column: Column) -> Field:
    kind = lake_type(column)
    form = arrow_form(kind.form, kind.name) if kind.form else None
    if form is None:
        raise LeftToSparkError(f"column {column.name!r} has type {column.source_type}, which Spark reads")
    return Field(column, form)


def decode_keys(keys: pa.ChunkedArray, spec: SilverSpec) -> list[pa.Array]:
    """The values of the key's columns of each record's key, in key order.

    Raises:
        LeftToSparkError: a key does not hold them all, or only Spark reads one of them.
    """
    columns = {column.name: column for column in spec.columns}
    fields = [_field(columns[name]) for name in spec.keys]
    try:
        leaves = _parse(keys, fields)
        key_values = [field.form.convert(leaves[field.name]) for field in fields]
    except pa.ArrowInvalid as error:
        raise LeftToSparkError(f"a key whose values do not fit as they come: {str(error)[:200]}") from error
    for field, values in zip(fields, key_values, strict=True):
        leave_any(pc.is_null(values), f"an event without a value for the key's column {field.column.name!r}")
    return key_values


def decode_changes(records: pa.Table, spec: SilverSpec, fields: Sequence[Field]) -> pa.Table:
    """The changes that the records tell, none with a problem; a delete has its key alone.

    Raises:
        LeftToSparkError: a record is no event of a row, or holds what only Spark reads.
    """
    tells_row = pc.and_(pc.is_valid(records["value"]), pc.invert(pc.equal(records["op"], "m").fill_null(False)))
    events = keep_rows(records, tells_row).combine_chunks()
    leave_any(pc.invert(pc.is_in(events["op"], value_set=pa.array(ROW_OPS))), "a record that is no c, u, d or r")
    leave_any(pc.is_null(events["position"]), "a record without a position")
    if spec.log_end:
        _leave_future(events["position"], spec)
    keyed = [field for field in fields if field.column.name in spec.keys]
    try:
        after, key = _parse(events["value"], fields, "after"), _parse(events["key"], keyed) if keyed else {}
        columns, gaps = _columns(events, spec, fields, after, key)
    except pa.ArrowInvalid as error:
        raise LeftToSparkError(f"a record whose values do not fit as they come: {str(error)[:200]}") from error
    meta = {own: events[bronze].combine_chunks() for own, bronze in META.items()}
    if (outside := outside_in_arrow(spec, columns, gaps)) is not None:
        meta["_cdc_op"] = pc.if_else(outside, "d", meta["_cdc_op"])
    places = {column.name: number for number, column in enumerate(spec.columns)}
    deleted = pc.equal(meta["_cdc_op"], "d").to_numpy(zero_copy_only=False)
    numbered = [(places[name], gap & ~deleted) for name, gap in gaps.items()]
    absent = list_numbers(numbered, events.num_rows)
    created = pc.and_(pc.equal(meta["_cdc_op"], "c"), pc.is_valid(absent))
    leave_any(created, "a row under a new key whose event does not hold it whole")
    slots = {slot(number): columns[column.name] for number, column in enumerate(spec.columns)}
    origin = {name: events[name] for name in ("topic", "partition", "offset")}
    return pa.table({**origin, **slots, **meta, "absent": absent, "problem": pa.nulls(events.num_rows, PROBLEM_TYPE)})


def _leave_future(positions: pa.Array, spec: SilverSpec) -> None:
    epoch = pc.utf8_slice_codeunits(positions, 0, EPOCH_WIDTH + 1)
    for at, width in connector(spec.connector).places:
        position = pc.binary_join_element_wise(epoch, pc.utf8_slice_codeunits(positions, at - 1, at - 1 + width), "")
        leave_any(pc.greater(position, spec.log_end), "an event from beyond the end of the source's log")


def _parse(texts: pa.ChunkedArray, fields: Sequence[Field], within: str = "") -> dict[str, pa.Array]:
    """The fields of each record's JSON object, or of the object under `within`; null where that is null."""
    own = [pa.field(field.name, field.form.leaf) for field in fields]
    parsed = parse_objects(texts, pa.schema([pa.field(within, pa.struct(own))] if within else own))
    if not within:
        return {field.name: parsed[field.name].combine_chunks() for field in fields}
    rows = parsed[within].combine_chunks()
    values = dict(zip((field_type.name for field_type in rows.type), rows.flatten(), strict=True))
    return {**values, _NO_ROW: pc.is_null(rows)}


def _columns(
    events: pa.Table, spec: SilverSpec, fields: Sequence[Field], after: Mapping[str, pa.Array], key: Mapping[str, pa.Array]
) -> tuple[dict[str, pa.Array], dict[str, np.ndarray]]:
    """The values of each column, and of each that an event leaves out which events those are."""
    deleted = pc.equal(events["op"], "d").combine_chunks()
    leave_any(pc.and_(after[_NO_ROW], pc.invert(deleted)), "an event without an after-image")
    markers, updated = _markers(events, spec), pc.equal(events["op"], "u").combine_chunks()
    columns, gaps = {}, {}
    for field in fields:
        leaf, column = after[field.name], field.column
        if column.name in spec.keys:
            leaf = pc.coalesce(key[field.name], leaf)
            leave_any(pc.is_null(leaf), f"an event without a value for the key's column {column.name!r}")
        else:
            _refuse_unclear(leaf, column, spec, deleted=deleted, updated=updated)
            gap = _gap(leaf, column, markers)
            if gap.any():
                gaps[column.name] = gap
                leaf = pc.if_else(pa.array(gap), pa.scalar(None, leaf.type), leaf)
        columns[column.name] = field.form.convert(leaf)
    return columns, gaps


def _refuse_unclear(leaf: pa.Array, column: Column, spec: SilverSpec, *, deleted: pa.Array, updated: pa.Array) -> None:
    """A NULL that may mean something else: a value that was not sent, or one that is older than its column."""
    empty = pc.is_null(leaf)
    if missing_leaf(column) is not None:
        leave_any(pc.and_(empty, pc.invert(deleted)), f"an event that may be older than column {column.name!r}")
    if connector(spec.connector).null_may_mean_unchanged and null_may_mean_unchanged(column):
        leave_any(pc.and_(empty, updated), f"a NULL in column {column.name!r} that may mean an unchanged value")


@dataclass(frozen=True)
class _Markers:
    """What stands for an unchanged value: texts, and for each event the number of its own; -1: none does."""

    texts: list[str]
    numbers: np.ndarray


def _markers(events: pa.Table, spec: SilverSpec) -> _Markers:
    """The text that the event's last header of that name tells, else the spec's; of a snapshot's row without a header none: it is
    whole, and what looks like the placeholder there is a value."""
    headers = events["headers"].combine_chunks()
    own = pc.equal(headers.flatten().field("key"), UNCHANGED_HEADER).fill_null(False)
    named = headers.flatten().field("value").filter(own).dictionary_encode()
    texts = [text.decode("utf-8", "replace") for text in named.dictionary.to_pylist()]
    snapshot = pc.equal(events["op"], "r").fill_null(False).to_numpy()
    numbers = np.where(snapshot, -1, len(texts))
    numbers[pc.list_parent_indices(headers).filter(own).to_numpy()] = named.indices.to_numpy(zero_copy_only=False)
    return _Markers([*texts, spec.unavailable], numbers)


def _gap(leaf: pa.Array, column: Column, markers: _Markers) -> np.ndarray:
    """Which events have a placeholder instead of a value. Only what can be stored out of line can be left where it is."""
    kind, gap = lake_type(column).name, np.zeros(len(leaf), bool)
    if kind in ("string", "binary") or kind.startswith("array"):
        for number, text in enumerate(markers.texts):
            own = markers.numbers == number
            if own.any():
                gap |= own & _is_one_of(leaf, placeholder_forms(text))
    return gap


def _is_one_of(leaf: pa.Array, forms: Sequence[str]) -> np.ndarray:
    """An array's placeholder stands in its one element, or is the marker's bytes as numbers."""
    if pa.types.is_string(leaf.type):
        return pc.is_in(leaf, value_set=pa.array(forms)).to_numpy(zero_copy_only=False)
    is_form = np.zeros(len(leaf), bool)
    if not pa.types.is_list(leaf.type):
        return is_form
    shapes = [json.loads(form) for form in forms if form.startswith("[")]
    lengths = pc.list_value_length(leaf).fill_null(0).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(np.isin(lengths, [len(shape) for shape in shapes])):
        is_form[row] = leaf[int(row)].as_py() in shapes
    return is_form
