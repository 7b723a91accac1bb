"""Records as Arrow tables: JSON objects parsed, rows kept and sorted.

Of JSON objects those fields are read that are asked for, in the types that are asked for, or nothing at all. Rows are not copied
where all are kept, or stand in order already: of a topic most do. What is not read exactly is left to Spark: LeftToSparkError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark.errors import LeftToSparkError
from spark.specs import BRONZE_COLUMNS, BRONZE_NAMES

_BLOCK = 1 << 20
_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<struct<key:string,value:binary>>": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def bronze_schema(names: Sequence[str] = BRONZE_NAMES) -> pa.Schema:
    """These columns of bronze (spark.specs.BRONZE_COLUMNS)."""
    types = {name: _TYPES[kind] for name, kind, _ in BRONZE_COLUMNS}
    return pa.schema([(name, types[name]) for name in names])


BRONZE_ARROW = bronze_schema()


def parse_objects(texts: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """The fields of `schema` of each text; one that is not there is null, others are left out.

    Raises:
        LeftToSparkError: a text is no single JSON object, or has a field of another type.
    """
    if not len(texts):
        return schema.empty_table()
    # Arrow ends the process at a document that is no object, such as `null` (pyarrow 25.0).
    if not pc.all(pc.starts_with(texts, b"{").fill_null(False)).as_py():
        raise LeftToSparkError("a record that is no JSON object")
    try:
        parsed = pj.read_json(
            pa.BufferReader(_lines(texts)),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(_BLOCK, 2 * pc.max(pc.binary_length(texts)).as_py())),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise LeftToSparkError(f"a record that has other fields: {str(error)[:200]}") from error
    if parsed.num_rows != len(texts):
        raise LeftToSparkError("a record that is no single JSON object")
    return parsed.select(schema.names).combine_chunks()


def _lines(texts: pa.ChunkedArray) -> pa.Buffer:
    """A line each. None of them becomes an object of Python's: that took a fifth of what parsing takes."""
    ended = pc.binary_join_element_wise(texts.cast(pa.binary()), b"\n", b"").combine_chunks()
    _, ends, content = ended.buffers()
    begin, end = (int.from_bytes(ends[4 * at : 4 * at + 4], "little") for at in (ended.offset, ended.offset + len(ended)))
    return content.slice(begin, end - begin)


def keep_rows(table: pa.Table, mask: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The rows whose mask is true; the table itself where that is all of them."""
    return table if pc.all(mask.fill_null(False), min_count=0).as_py() else table.filter(mask)


def leave_any(reasons: pa.ChunkedArray | pa.Array, what: str) -> None:
    """Where one of these is true, what is in hand is Spark's to look at. Raises LeftToSparkError: it is; `what` says why."""
    if pc.any(reasons).as_py():
        raise LeftToSparkError(what)


def leave_first(reasons: Mapping[str, object]) -> None:
    """Where one of these is true, the same. Raises LeftToSparkError: naming the first that is."""
    for what, holds in reasons.items():
        if holds:
            raise LeftToSparkError(what)


def sort_rows(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows in ascending order of these columns; the table itself where they stand so. None of the columns has a NULL."""
    return table if is_sorted(table, names) else table.sort_by([(name, "ascending") for name in names])


def is_sorted(table: pa.Table, names: Sequence[str]) -> bool:
    """Whether the rows stand in ascending order of these columns, which have no NULL."""
    last, *before = reversed(names)
    smaller, larger = _neighbours(table, last)
    ordered = pc.less_equal(smaller, larger)
    for name in before:
        smaller, larger = _neighbours(table, name)
        ordered = pc.or_(pc.less(smaller, larger), pc.and_(pc.equal(smaller, larger), ordered))
    return bool(pc.all(ordered, min_count=0).as_py())


def write_hexadecimal(numbers: pa.Array, digits: int) -> pa.Array:
    """Numbers from 0 on as hexadecimal text of so many digits, at most 16; of a larger number more are not told apart."""
    big_endian = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(">u8")
    text, ends = big_endian.tobytes().hex().encode(), np.arange(0, 16 * len(big_endian) + 1, 16, dtype=np.int64)
    written = pa.LargeStringArray.from_buffers(len(big_endian), pa.py_buffer(ends), pa.py_buffer(text)).cast(pa.string())
    written = written if digits == 16 else pc.utf8_slice_codeunits(written, 16 - digits, 16)
    return pc.if_else(pc.is_valid(numbers), written, None) if numbers.null_count else written


def _neighbours(table: pa.Table, name: str) -> tuple[pa.Array, pa.Array]:
    values = table[name].combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values[:-1], values[1:]
