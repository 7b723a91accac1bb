"""Lines of a batch of bronze rows, made by Arrow where that is possible: a few calls for a thousand records.

Record by record it takes 7 µs each, which is more than to compress it; this way it takes 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.lines import BronzeRow, Lines, hour_folder

_FIRST_PRINTABLE = 0x20


@dataclass(frozen=True)
class LineRun:
    """Records one after the other of one hour and partition; `kinds` counts them by operation."""

    folder: str
    partition: int
    min_offset: int
    max_offset: int
    kinds: Counter[str]
    lines: bytes

    @property
    def records(self) -> int:
        """How many lines it has."""
        return self.kinds.total()


def line_runs(batch: Any, lines: Lines) -> Iterator[LineRun]:
    """Of an Arrow record batch with the columns of `BronzeRow`, in order of partition and offset."""
    import numpy as np
    import pyarrow.compute as pc

    partitions, offsets, hours = (
        batch.column("partition").to_numpy(),
        batch.column("offset").to_numpy(),
        np.floor_divide(batch.column("timestamp").to_numpy(), 3_600_000),
    )
    operation = pc.coalesce(batch.column("op"), "unknown")
    kinds = pc.if_else(pc.is_null(batch.column("value")), "tombstone", pc.if_else(pc.equal(operation, ""), "unknown", operation))
    text = arrow_lines(batch, lines)
    if text is None:
        text = row_lines(batch, lines)
    changes = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(hours) != 0)) + 1
    for start, end in zip([0, *changes.tolist()], [*changes.tolist(), len(batch)], strict=True):
        counted = pc.value_counts(kinds.slice(start, end - start)).to_pylist()
        yield LineRun(
            hour_folder(int(batch.column("timestamp")[start].as_py())),
            int(partitions[start]),
            int(offsets[start]),
            int(offsets[end - 1]),
            Counter({each["values"]: each["counts"] for each in counted}),
            _slice_lines(text, start, end),
        )


def row_lines(batch: Any, lines: Lines) -> list[bytes]:
    """The line of any record, one after the other."""
    columns = [batch.column(name).to_pylist() for name in BronzeRow._fields]
    return [lines.line(row) for row in map(BronzeRow._make, zip(*columns, strict=True))]


def arrow_lines(batch: Any, lines: Lines) -> Any | None:
    """The same lines as an Arrow array; None where a key or a value is no text, or holds a character that JSON must write by
    its number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    quoted = {name: _quote(batch.column(name)) for name in ("key", "value", "op", "position", "snapshot", "tx_id")}
    if any(column is None for column in quoted.values()):
        return None
    headers = batch.column("headers")
    with_headers = headers.null_count < len(headers)
    written = pa.array(map(lines.headers, headers.to_pylist()), pa.large_string()) if with_headers else _text("[]")
    number = {name: batch.column(name).cast(pa.large_string()) for name in ("offset", "partition", "timestamp")}
    source_ts = pc.coalesce(batch.column("source_ts").cast(pa.large_string()), _text("null"))
    return pc.binary_join_element_wise(
        *(_text('{"headers":'), written, _text(',"key":'), quoted["key"], _text(',"offset":'), number["offset"]),
        *(_text(',"op":'), quoted["op"], _text(',"partition":'), number["partition"]),
        *(_text(',"position":'), quoted["position"], _text(',"snapshot":'), quoted["snapshot"]),
        *(_text(',"source_ts":'), source_ts, _text(',"timestamp":'), number["timestamp"]),
        *(_text(f',"topic":{lines.topic},"tx_id":'), quoted["tx_id"]),
        *(_text(',"value":'), quoted["value"], _text("}\n"), _text("")),
    )


def _quote(column: Any) -> Any | None:
    """Each as a JSON string, or `null`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # Bytes that are no UTF-8 are none of its texts.
        text = column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    if np.frombuffer(_bytes_of(text, 0, len(text)), np.uint8).min(initial=_FIRST_PRINTABLE) < _FIRST_PRINTABLE:
        return None
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    return pc.coalesce(pc.binary_join_element_wise(_text('"'), escaped, _text('"'), _text("")), _text("null"))


def _text(text: str) -> Any:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())


def _slice_lines(text: Any, start: int, end: int) -> bytes:
    return b"".join(text[start:end]) if isinstance(text, list) else bytes(_bytes_of(text, start, end))


def _bytes_of(text: Any, start: int, end: int) -> Any:
    """Those of the rows from one number on up to another: a column's buffers are its batch's, and of all batches beside it."""
    import numpy as np

    _, places, data = text.buffers()
    ends = np.frombuffer(places, np.int64)[text.offset :]
    return memoryview(data or b"")[int(ends[start]) : int(ends[end])]
