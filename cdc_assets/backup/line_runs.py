"""Lines of a batch of bronze rows, made by Arrow where that is possible: a few calls for a thousand records.

Record by record it takes 7 µs each, which is more than to compress it; this way it takes 2. Most of that is to escape the
quotation marks of the values, of which a change event has a hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.json_values import are_json_objects
from cdc_assets.backup.lines import BronzeRow, Lines

_FIRST_PRINTABLE, _MARK, _BACKSLASH = 0x20, ord('"'), ord("\\")


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
    as_json = are_json_objects(batch.column("value")) if lines.layout.values == "json" else None
    text = arrow_lines(batch, lines, as_json)
    if text is None:
        text = row_lines(batch, lines, as_json)
    changes = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(hours) != 0)) + 1
    for start, end in zip([0, *changes.tolist()], [*changes.tolist(), len(batch)], strict=True):
        counted = pc.value_counts(kinds.slice(start, end - start)).to_pylist()
        yield LineRun(
            lines.layout.hour_folder(int(batch.column("timestamp")[start].as_py())),
            int(partitions[start]),
            int(offsets[start]),
            int(offsets[end - 1]),
            Counter({each["values"]: each["counts"] for each in counted}),
            _slice_lines(text, start, end),
        )


def row_lines(batch: Any, lines: Lines, as_json: Any = None) -> list[bytes]:
    """The line of any record, one after the other; `as_json` says of which the value is JSON."""
    columns = [batch.column(name).to_pylist() for name in BronzeRow._fields]
    rows = map(BronzeRow._make, zip(*columns, strict=True))
    if as_json is None:
        return [lines.line(row) for row in rows]
    return [lines.line(row, is_json=is_json) for row, is_json in zip(rows, as_json.tolist(), strict=True)]


def arrow_lines(batch: Any, lines: Lines, as_json: Any = None) -> Any | None:
    """The same lines as an Arrow array; None where a key or a value is no text, or holds a character that JSON must write by
    its number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    quoted = dict[str, tuple[Any, ...]]()
    for name in ("key", "op", "position", "snapshot", "tx_id"):
        if (strings := _quote(batch.column(name))) is None:
            return None
        quoted[name] = strings
    size_and_value = _value_parts(batch.column("value"), as_json)
    if size_and_value is None:
        return None
    size, value = size_and_value
    headers = batch.column("headers")
    with_headers = headers.null_count < len(headers)
    written = pa.array(map(lines.headers, headers.to_pylist()), pa.large_string()) if with_headers else _text("[]")
    number = {name: batch.column(name).cast(pa.large_string()) for name in ("offset", "partition", "timestamp")}
    source_ts = pc.coalesce(batch.column("source_ts").cast(pa.large_string()), _text("null"))
    return pc.binary_join_element_wise(
        *(_text('{"headers":'), written, _text(',"key":'), *quoted["key"], _text(',"offset":'), number["offset"]),
        *(_text(',"op":'), *quoted["op"], _text(',"partition":'), number["partition"]),
        *(_text(',"position":'), *quoted["position"], *size, _text(',"snapshot":'), *quoted["snapshot"]),
        *(_text(',"source_ts":'), source_ts, _text(',"timestamp":'), number["timestamp"]),
        *(_text(f',"topic":{lines.topic},"tx_id":'), *quoted["tx_id"]),
        *(*value, _text("}\n"), _text("")),
    )


def _value_parts(column: Any, as_json: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Of a value the parts of its size and of itself, each with its field's name; `as_json` is None where all are strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if as_json is None:
        strings = _quote(column)
        return None if strings is None else ((), (_text(',"value":'), *strings))
    try:
        text = column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    sizes = pc.binary_join_element_wise(_text(',"size":'), pc.binary_length(text).cast(pa.large_string()), _text(""))
    if as_json.all():
        return (sizes,), (_text(',"value":'), text)
    strings = _quote(column)
    if strings is None:
        return None
    told = pa.array(as_json)
    as_string = pc.binary_join_element_wise(_text(',"value_text":'), *strings, _text(""))
    as_string = pc.if_else(text.is_null(), _text(',"value":null'), as_string)
    as_object = pc.binary_join_element_wise(_text(',"value":'), text, _text(""))
    return (pc.if_else(told, sizes, _text("")),), (pc.if_else(told, as_object, as_string),)


def _quote(column: Any) -> tuple[Any, ...] | None:
    """Each as a JSON string, or `null`: the parts of it, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # Bytes that are no UTF-8 are none of its texts.
        text = column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    escaped = _escape(text)
    if escaped is None:
        return None
    if not text.null_count:
        # Without another copy of all of them.
        return _text('"'), escaped, _text('"')
    joined = pc.binary_join_element_wise(_text('"'), escaped, _text('"'), _text(""))
    return (pc.if_else(text.is_null(), _text("null"), joined),)


def _escape(text: Any) -> Any | None:
    """With a backslash before each quotation mark and backslash; a null is empty. None: a character needs its number.

    All rows at once, as one `bytes`: Arrow's `replace_substring` goes on from one mark to the next, and takes twice as long.
    """
    import numpy as np
    import pyarrow as pa

    body = _bytes_of(text, 0, len(text))
    raw = np.frombuffer(body, np.uint8)
    if raw.min(initial=_FIRST_PRINTABLE) < _FIRST_PRINTABLE:
        return None
    ends = _ends(text)[: len(text) + 1]
    ends = ends - ends[0]
    marks = np.flatnonzero((raw == _MARK) | (raw == _BACKSLASH))
    written = bytes(body).replace(b"\\", b"\\\\").replace(b'"', b'\\"') if len(marks) else body
    places = ends + np.searchsorted(marks, ends)
    return pa.Array.from_buffers(pa.large_string(), len(text), [None, pa.py_buffer(places), pa.py_buffer(written)])


def _text(text: str) -> Any:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())


def _slice_lines(text: Any, start: int, end: int) -> bytes:
    return b"".join(text[start:end]) if isinstance(text, list) else bytes(_bytes_of(text, start, end))


def _bytes_of(text: Any, start: int, end: int) -> Any:
    """Those of the rows from one number on up to another: a column's buffers are its batch's, and of all batches beside it."""
    ends, data = _ends(text), text.buffers()[2]
    return memoryview(data or b"")[int(ends[start]) : int(ends[end])]


def _ends(text: Any) -> Any:
    """Where each row begins in its buffer, and the last one ends."""
    import numpy as np

    return np.frombuffer(text.buffers()[1], np.int64)[text.offset :]
