"""Which row of a table has the key of another row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


class KeyRows:
    """The rows of a table by their key, of one column or more: no key is there twice, and none has a NULL.

    A key becomes a number, column by column: that of its first columns' values, and then of the next one's with it.
    """

    def __init__(self, rows: pa.Table, keys: Sequence[str]) -> None:
        self._keys = keys
        self._known: list[tuple[pa.Array, pa.Array]] = []
        numbers = None
        for values in self._columns(rows):
            distinct = pc.unique(values)
            joined = _join(numbers, pc.index_in(values, value_set=distinct), len(distinct))
            self._known.append((distinct, pc.unique(joined)))
            numbers = pc.index_in(joined, value_set=self._known[-1][1])

    def find(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row of the batch the number of the row with its key (int32), or null."""
        numbers = None
        for values, (distinct, known) in zip(self._columns(batch), self._known, strict=True):
            joined = _join(numbers, pc.index_in(values, value_set=distinct), len(distinct))
            numbers = pc.index_in(joined, value_set=known)
        return numbers

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> Iterator[pa.Array]:
        for key in self._keys:
            values = rows[key]
            yield values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _join(numbers: pa.Array | None, more: pa.Array, count: int) -> pa.Array:
    """One number for both: null where one of them is."""
    wide = more.cast(pa.int64())
    return wide if numbers is None else pc.add(pc.multiply(numbers.cast(pa.int64()), count), wide)
