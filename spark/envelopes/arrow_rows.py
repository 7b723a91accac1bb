"""Rows of Arrow tables kept and sorted, without a copy where all are kept, or stand in order already: of a topic most do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.errors import LeftToSparkError


def keep_rows(table: pa.Table, mask: pa.ChunkedArray | pa.Array) -> pa.Table:
    """The rows whose mask is true; the table itself where that is all of them."""
    return table if pc.all(mask.fill_null(False), min_count=0).as_py() else table.filter(mask)


def leave_any(told: pa.ChunkedArray | pa.Array, what: str) -> None:
    """Where one of these is true, what is in hand is Spark's to look at.

    Raises:
        LeftToSparkError: it is; `what` says why.
    """
    if pc.any(told).as_py():
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
    known = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(">u8")
    text, ends = known.tobytes().hex().encode(), np.arange(0, 16 * len(known) + 1, 16, dtype=np.int64)
    written = pa.LargeStringArray.from_buffers(len(known), pa.py_buffer(ends), pa.py_buffer(text)).cast(pa.string())
    written = written if digits == 16 else pc.utf8_slice_codeunits(written, 16 - digits, 16)
    return pc.if_else(pc.is_valid(numbers), written, None) if numbers.null_count else written


def _neighbours(table: pa.Table, name: str) -> tuple[pa.Array, pa.Array]:
    values = table[name].combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values[:-1], values[1:]
