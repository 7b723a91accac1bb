"""Parquet files of a Delta table and their deletion vectors, without Spark: written and read, and told as actions of a commit.

A file is told as the `add` or `remove` of a commit that follows
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file). A deletion vector says which rows of a file
are gone: a set of row numbers as a 64-bit Roaring bitmap. A commit's vectors are one file, and an `add` names its own by a
descriptor (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vectors and
https://github.com/RoaringBitmap/RoaringFormatSpec). delta-rs reads them.
"""

from __future__ import annotations

import base64
import json
import struct
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.table.table_folder import LakeFolder

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
    facts = {"deletionTimestamp": int(time.time() * 1000), "dataChange": changes, "extendedFileMetadata": True}
    return {"remove": {**of_file, **facts, **vector}}


def read_columns(folder: LakeFolder, file: AddFile, columns: Sequence[str] | None = None, *, threads: bool = True) -> pa.Table:
    """All rows that a file holds; a log has paths as URLs have them. `columns`: all where None.

    delta-rs keeps types of Arrow's in a file that it writes (views, 1.6.6), and Arrow filters none of those (25.0): they are
    plain here.
    """
    names = None if columns is None else list(columns)
    table = pq.read_table(
        unquote(file["path"]),
        columns=names,
        filesystem=folder.filesystem,
        partitioning=None,
        coerce_int96_timestamp_unit="us",
        use_threads=threads,
    )
    return pa.table([_plain(table[name]) for name in table.column_names], names=table.column_names)


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
    rows = read_columns(folder, file, threads=file["size"] > THREADS_FROM)
    there = rows_there(rows.num_rows, mask)
    rows = rows if there.all() else rows.filter(pa.array(there))
    columns = [rows[f.name].cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def rows_there(count: int, mask: np.ndarray | None) -> np.ndarray:
    """For each of a file's rows whether it is there; a mask may end before the file does."""
    there = np.ones(count, dtype=bool)
    if mask is not None:
        there[: len(mask)] = mask
    return there


def _repeating(rows: pa.Table) -> list[str]:
    """The columns whose values repeat, as Parquet names their leaves: of others a dictionary would be built and thrown away."""
    seen, repeating = rows.slice(0, _LOOKED_AT), []
    for field in rows.schema:
        if not _is_counted(field.type) or 2 * pc.count_distinct(seen[field.name]).as_py() <= seen.num_rows:
            repeating += _leaves(field.name, field.type)
    return repeating


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
        # No reader looks for bounds of these.
        if pa.types.is_nested(values.type) or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
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
        extremes = pc.min_max(values).as_py()
        return _lower(extremes["min"]), _upper(extremes["max"])
    except (OverflowError, ValueError):
        return None


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


FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
"""The table feature, and the property by which writers may make vectors."""
Descriptor = dict[str, Any]
_MAGIC, _NO_RUNS, _VERSION = 1681511377, 12346, b"\x01"
_MOST_IN_ARRAY = 4096
_PLACE_CHARACTERS = 20
"""A vector's place ends with so many: its file's UUID in Z85."""
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)


def write_vectors(folder: LakeFolder, gone: Mapping[str, np.ndarray]) -> dict[str, Descriptor]:
    """By file, the descriptor of the vector that says which rows (numbers from 0, ascending) are gone."""
    name, descriptors, content = uuid.uuid4(), {}, [_VERSION]
    file_id = base64.b85encode(name.bytes).translate(_TO_Z85).decode()
    offset = 1
    for file, rows in gone.items():
        data = encode(rows)
        content += [struct.pack(">i", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        common = {"storageType": "u", "pathOrInlineDv": file_id, "offset": offset}
        descriptors[file] = {**common, "sizeInBytes": len(data), "cardinality": len(rows)}
        offset += len(data) + 8
    folder.put(f"deletion_vector_{name}.bin", b"".join(content))
    return descriptors


def encode(rows: np.ndarray) -> bytes:
    """Ascending row numbers below 2**32 as Delta's RoaringBitmapArray: one bitmap of 32 bits, in the portable form."""
    high, low = (rows >> 16).astype("<u2"), (rows & 0xFFFF).astype("<u2")
    keys, starts = np.unique(high, return_index=True)
    containers = [_container(low_bits) for low_bits in np.split(low, starts[1:])] if len(rows) else []
    counts = np.diff([*starts, len(rows)])
    header = struct.pack("<II", _NO_RUNS, len(keys)) + np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    places = len(header) + 4 * len(keys) + np.cumsum([0, *map(len, containers)])[:-1]
    bitmap = b"".join([header, places.astype("<u4").tobytes(), *containers])
    return struct.pack("<iqi", _MAGIC, 1, 0) + bitmap


def _container(numbers: np.ndarray) -> bytes:
    if len(numbers) <= _MOST_IN_ARRAY:
        return numbers.tobytes()
    bits = np.zeros(1 << 16, dtype=bool)
    bits[numbers] = True
    return np.packbits(bits, bitorder="little").tobytes()


def file_of_vector(place: str) -> str:
    """The file below the table's folder that a descriptor of storage type `u` names."""
    prefix, name = place[:-_PLACE_CHARACTERS], place[-_PLACE_CHARACTERS:]
    number = uuid.UUID(bytes=base64.b85decode(name.encode().translate(_FROM_Z85)))
    return f"{prefix}/deletion_vector_{number}.bin" if prefix else f"deletion_vector_{number}.bin"


def read_masks(table: Any) -> dict[str, np.ndarray]:
    """Of the files with a deletion vector, by path: for each row whether it is there."""
    import pyarrow as pa

    masks, root = {}, Path(unquote(urlparse(table.table_uri).path))
    for read in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, mask in zip(read.column(0).to_pylist(), read.column(1), strict=True):
            masks[str(Path(unquote(urlparse(uri).path)).relative_to(root))] = mask.values.to_numpy(zero_copy_only=False)
    return masks
