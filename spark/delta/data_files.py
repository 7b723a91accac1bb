"""A Parquet file of a Delta table, without Spark: written and read, and told as the `add` or `remove` of a commit that follows.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.lake.folder import LakeFolder

AddFile = dict[str, Any]
"""The fields of an `add`: path, partitionValues, size, modificationTime (ms), dataChange, stats."""
_LONGEST_BOUND = 64
"""Characters. Bounds of longer texts are cut; what follows the upper one sorts behind every text that begins so."""
ROWS_A_GROUP = 1 << 17
"""At most: a row group is read by one core, and a table of a million rows may be one file. DuckDB writes 122,880."""
THREADS_FROM = 8 << 20
"""Bytes of a file. For a smaller one threads cost more than they bring."""
_LOOKED_AT = 1000
"""Rows, by which is told whether a column's values repeat."""
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_LAST_CHARACTER = "\U0010ffff"


def write_file(
    folder: LakeFolder, rows: pa.Table, bounded: Sequence[str] | None = None, groups: Sequence[int] | None = None
) -> AddFile:
    """The rows as one file; no commit names it yet. `bounded` are the columns whose bounds are told (None: all that have some):
    those of which the table's other files tell them, its property delta.dataSkippingStatsColumns. `groups`: of so many rows each,
    which are read apart; a larger one is several."""
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    settings = {"compression": "zstd", "store_schema": False, "use_dictionary": _repeating(rows)}
    with pq.ParquetWriter(name, rows.schema, filesystem=folder.filesystem, **settings) as file:
        at = 0
        for count in groups or [rows.num_rows]:
            file.write_table(rows.slice(at, count), row_group_size=min(max(count, 1), ROWS_A_GROUP))
            at += count
    return {
        "path": name,
        "partitionValues": {},
        "size": folder.size(name),
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(_statistics(rows, rows.column_names if bounded is None else bounded)),
    }


def remove_action(file: AddFile, *, changes: bool = True) -> dict[str, Any]:
    """The `remove` of a file that the table has; not `changes`: its rows are in other files of the commit."""
    vector = {"deletionVector": file["deletionVector"]} if file.get("deletionVector") else {}
    of_file = {"path": file["path"], "partitionValues": file.get("partitionValues") or {}, "size": file["size"]}
    told = {"deletionTimestamp": int(time.time() * 1000), "dataChange": changes, "extendedFileMetadata": True}
    return {"remove": {**of_file, **told, **vector}}


def read_columns(folder: LakeFolder, file: AddFile, columns: Sequence[str] | None = None, *, threads: bool = True) -> pa.Table:
    """All rows that a file holds; a log has paths as URLs have them. `columns`: all where None.

    delta-rs keeps types of Arrow's in a file that it writes (views, 1.6.6), and Arrow filters none of those (25.0): they are
    plain here.
    """
    names = None if columns is None else list(columns)
    found = pq.read_table(
        unquote(file["path"]),
        columns=names,
        filesystem=folder.filesystem,
        partitioning=None,
        coerce_int96_timestamp_unit="us",
        use_threads=threads,
    )
    return pa.table([_plain(found[name]) for name in found.column_names], names=found.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return _PLAIN.get(kind, kind)


def read_rows(folder: LakeFolder, file: AddFile, mask: np.ndarray | None, schema: pa.Schema) -> pa.Table:
    """The rows of a file in the table's columns, less those that the mask says are gone; a column that the file does not have
    yet is NULL."""
    held = read_columns(folder, file, threads=file["size"] > THREADS_FROM)
    there = rows_there(held.num_rows, mask)
    held = held if there.all() else held.filter(pa.array(there))
    columns = [held[f.name].cast(f.type) if f.name in held.column_names else pa.nulls(held.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def rows_there(count: int, mask: np.ndarray | None) -> np.ndarray:
    """For each of a file's rows whether it is there; a mask may end before the file does."""
    there = np.ones(count, dtype=bool)
    if mask is not None:
        there[: len(mask)] = mask
    return there


def _repeating(rows: pa.Table) -> list[str]:
    """The columns whose values repeat, as Parquet names their leaves: of others a dictionary would be built and thrown away."""
    seen, found = rows.slice(0, _LOOKED_AT), []
    for field in rows.schema:
        if not _is_counted(field.type) or 2 * pc.count_distinct(seen[field.name]).as_py() <= seen.num_rows:
            found += _leaves(field.name, field.type)
    return found


def _is_counted(kind: pa.DataType) -> bool:
    """Whether Arrow counts its values (25.0)."""
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return not (is_view or pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind))


def _leaves(name: str, kind: pa.DataType) -> list[str]:
    if pa.types.is_list(kind):
        return _leaves(f"{name}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{name}.{field.name}", field.type)]
    return [name]


def _statistics(rows: pa.Table, bounded: Sequence[str]) -> dict[str, Any]:
    """Rows, and the bounds of columns, by which readers skip files: of all of them that have some, or of none.

    delta-rs takes a bound that is missing for one that no value meets: a filter on that column would find nothing in the file
    (1.6.6, to_pyarrow_dataset).
    """
    least, most, nulls = {}, {}, {}
    for name in bounded:
        values = rows[name]
        if _has_no_bounds(values.type):
            continue
        nulls[name] = values.null_count
        if values.null_count == len(values):
            continue
        bounds = _bounds(values) if _is_bounded(values.type) else None
        if bounds is None:
            return {"numRecords": rows.num_rows}
        least[name], most[name] = bounds
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _bounds(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """None where there are none that can be written: of a date beyond those that Python has."""
    try:
        found = pc.min_max(values).as_py()
        return _lower(found["min"]), _upper(found["max"])
    except (OverflowError, ValueError):
        return None


def _has_no_bounds(kind: pa.DataType) -> bool:
    """Whether no reader looks for bounds of it."""
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_bounded(kind: pa.DataType) -> bool:
    """Whether its bounds are written exactly, or further out. Decimals and floats would be rounded, booleans have none."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text or pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _lower(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_BOUND]
    return _moment(value) if isinstance(value, datetime) else value.isoformat() if isinstance(value, date) else value


def _upper(value: Any) -> Any:
    if isinstance(value, str):
        if value[_LONGEST_BOUND : _LONGEST_BOUND + 1] == _LAST_CHARACTER:
            raise ValueError("no short text is above it")
        return value if len(value) <= _LONGEST_BOUND else value[:_LONGEST_BOUND] + _LAST_CHARACTER
    return _lower(value + timedelta(microseconds=999) if isinstance(value, datetime) else value)


def _moment(value: datetime) -> str:
    """In whole milliseconds, as the protocol has it."""
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
