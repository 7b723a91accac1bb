"""Bronze rows as JSON lines: lossless, and the same bytes each time. Arrow makes them where that is possible, a thousand
records in a few calls; the others are made one by one, to the same bytes.
"""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cdc_assets.backup.object_layout import ObjectLayout

_NAME = '"value"'
_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class BronzeRow(NamedTuple):
    """A record as bronze holds it; times as in a line. A tuple, because millions are made of pyarrow's columns."""

    partition: int
    offset: int
    timestamp: int | None
    op: str | None
    position: str | None
    headers: Any
    key: bytes | None
    value: bytes | None
    tx_id: str | None = None
    source_ts: int | None = None
    snapshot: str | None = None


class Lines:
    """Makes the lines of one topic. Put together by hand: a dictionary per record took twice as long.

    Keys, values and headers are text where they are valid UTF-8 and base64 otherwise (`key_base64` instead of `key`), so that a
    restore gives back the same bytes. Fields are sorted; `timestamp` is in milliseconds, as Kafka has it, `source_ts` in
    microseconds.

    With `values: json` a value that is a JSON object stands in its line to the letter, and `size` says how many bytes it has.
    Any other one is `value_text` or `value_base64`, so that `value` is an object in every line, or null.
    """

    def __init__(self, topic: str, layout: ObjectLayout | None = None) -> None:
        self.topic = _encoded(topic)
        self.layout = layout or ObjectLayout()
        # A connector writes the same headers with every record.
        self._last_headers: tuple[Any, str] = ((), "[]")

    def line(self, row: BronzeRow, *, is_json: bool = False) -> bytes:
        """One record as a line of JSON in UTF-8, keys in the order of the alphabet; `is_json`: its value stands there itself."""
        partition, offset, timestamp, op, position, headers, key, value, tx_id, source_ts, snapshot = row
        size = f'"size":{len(value)},' if is_json and value is not None else ""
        value_text = f'"value":{value.decode()}' if is_json and value is not None else self._value(value)
        return (
            f'{{"headers":{self.headers(headers)},{_text_or_base64("key", key)},"offset":{offset},"op":{_json_text(op)},'
            f'"partition":{partition},"position":{_json_text(position)},{size}"snapshot":{_json_text(snapshot)},'
            f'"source_ts":{"null" if source_ts is None else source_ts},"timestamp":{timestamp},"topic":{self.topic},'
            f'"tx_id":{_json_text(tx_id)},{value_text}}}\n'
        ).encode()

    def _value(self, value: bytes | None) -> str:
        if self.layout.values == "text" or value is None:
            return _text_or_base64("value", value)
        text = _text_or_base64("value", value)
        return text if text.startswith('"value_base64"') else f'"value_text"{text.removeprefix(_NAME)}'

    def headers(self, headers: Any) -> str:
        """One record's headers as JSON; None: it has none."""
        if headers != self._last_headers[0]:
            fields = [f"{{{_text_or_base64('name', h['key'])},{_text_or_base64('value', h['value'])}}}" for h in headers or ()]
            self._last_headers = headers, f"[{','.join(fields)}]"
        return self._last_headers[1]


def _json_text(text: str | None) -> str:
    return "null" if text is None else _encoded(text)


def _text_or_base64(name: str, data: bytes | str | None) -> str:
    if data is None or isinstance(data, str):
        return f'"{name}":{_json_text(data)}'
    try:
        return f'"{name}":{_encoded(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(data).decode()}"'


_FIRST_PRINTABLE = 0x20
_WORDS = (b"NaN", b"Inf")
_NOBODYS = "a field of no value (cdc_assets)"


def are_json_objects(values: Any) -> Any:
    """Of an Arrow array of bytes: a numpy array of booleans.

    True is an object on one line, which Arrow's reader takes whole. It is written to the letter, and read back by its length,
    so no number, order of keys or blank can change.

    Texts are read many at a time, one a line. Each begins with `{` and ends with `}`, so none of them ends within an object
    that the next one goes on with: behind a `}` JSON has no `{`. So as many rows as texts means that each is one object. If
    not, halves are read: whether a value is JSON depends on nothing but itself, and a batch that is written again has the same
    bytes.

    Arrow's reader takes NaN and infinities for numbers, which JSON (RFC 8259) does not have and MongoDB's connector writes. So
    texts with such a word are asked one by one.
    """
    import numpy as np

    texts = values.to_pylist()
    are_objects = np.array(
        [text is not None and text[:1] == b"{" and text[-1:] == b"}" and _has_no_constant(text) for text in texts], bool
    )
    _leave_out([text or b"" for text in texts], np.flatnonzero(are_objects), are_objects)
    return are_objects


def _has_no_constant(text: bytes) -> bool:
    """Whether no number of it is NaN or infinite; False also of what is not to be read for that."""
    if not any(word in text for word in _WORDS):
        return True
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _leave_out(texts: Sequence[bytes], places: Any, found: Any) -> None:
    # By halves: a batch that is all objects costs one call of the reader, one odd value the logarithm of them.
    if not len(places) or _all_are_objects([texts[index] for index in places]):
        return
    if len(places) == 1:
        found[places[0]] = False
        return
    half = len(places) // 2
    _leave_out(texts, places[:half], found)
    _leave_out(texts, places[half:], found)


def _all_are_objects(texts: Sequence[bytes]) -> bool:
    import numpy as np
    import pyarrow as pa
    import pyarrow.json as pj

    lines = b"\n".join(texts)
    read = np.frombuffer(lines, np.uint8)
    if np.count_nonzero(read < _FIRST_PRINTABLE) != len(texts) - 1 or not _is_text(lines):
        return False
    try:
        rows = pj.read_json(
            io.BytesIO(lines),
            read_options=pj.ReadOptions(block_size=len(lines) + 1, use_threads=False),
            # A reader that looks for one field passes over all others, whatever they are.
            parse_options=pj.ParseOptions(explicit_schema=pa.schema([(_NOBODYS, pa.null())]), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return False
    return int(rows.num_rows) == len(texts)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_FIRST_UNESCAPED, _MARK, _BACKSLASH = 0x20, ord('"'), ord("\\")


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
            Counter({run["values"]: run["counts"] for run in counted}),
            b"".join(text[start:end]) if isinstance(text, list) else bytes(_bytes_of(text, start, end)),
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
    its number.

    Record by record it takes 7 µs each, which is more than to compress it; this way it takes 2. Most of that is to escape the
    quotation marks of the values, of which a change event has a hundred.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    quoted = dict[str, tuple[Any, ...]]()
    for name in ("key", "op", "position", "snapshot", "tx_id"):
        if (strings := _quote(batch.column(name))) is None:
            return None
        quoted[name] = strings
    size_and_value = _value_pieces(batch.column("value"), as_json)
    if size_and_value is None:
        return None
    size, value = size_and_value
    headers = batch.column("headers")
    with_headers = headers.null_count < len(headers)
    written = pa.array(map(lines.headers, headers.to_pylist()), pa.large_string()) if with_headers else _arrow_text("[]")
    number = {name: batch.column(name).cast(pa.large_string()) for name in ("offset", "partition", "timestamp")}
    source_ts = pc.coalesce(batch.column("source_ts").cast(pa.large_string()), _arrow_text("null"))
    return pc.binary_join_element_wise(
        *(
            _arrow_text('{"headers":'),
            written,
            _arrow_text(',"key":'),
            *quoted["key"],
            _arrow_text(',"offset":'),
            number["offset"],
        ),
        *(_arrow_text(',"op":'), *quoted["op"], _arrow_text(',"partition":'), number["partition"]),
        *(_arrow_text(',"position":'), *quoted["position"], *size, _arrow_text(',"snapshot":'), *quoted["snapshot"]),
        *(_arrow_text(',"source_ts":'), source_ts, _arrow_text(',"timestamp":'), number["timestamp"]),
        *(_arrow_text(f',"topic":{lines.topic},"tx_id":'), *quoted["tx_id"]),
        *(*value, _arrow_text("}\n"), _arrow_text("")),
    )


def _value_pieces(column: Any, as_json: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Of a value the pieces of its size and of itself, each with its field's name; `as_json` is None where all are strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if as_json is None:
        strings = _quote(column)
        return None if strings is None else ((), (_arrow_text(',"value":'), *strings))
    try:
        text = column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return None
    sizes = pc.binary_join_element_wise(_arrow_text(',"size":'), pc.binary_length(text).cast(pa.large_string()), _arrow_text(""))
    if as_json.all():
        return (sizes,), (_arrow_text(',"value":'), text)
    strings = _quote(column)
    if strings is None:
        return None
    is_json = pa.array(as_json)
    as_string = pc.binary_join_element_wise(_arrow_text(',"value_text":'), *strings, _arrow_text(""))
    as_string = pc.if_else(text.is_null(), _arrow_text(',"value":null'), as_string)
    as_object = pc.binary_join_element_wise(_arrow_text(',"value":'), text, _arrow_text(""))
    return (pc.if_else(is_json, sizes, _arrow_text("")),), (pc.if_else(is_json, as_object, as_string),)


def _quote(column: Any) -> tuple[Any, ...] | None:
    """Each as a JSON string, or `null`: the pieces of it, in their order."""
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
        return _arrow_text('"'), escaped, _arrow_text('"')
    joined = pc.binary_join_element_wise(_arrow_text('"'), escaped, _arrow_text('"'), _arrow_text(""))
    return (pc.if_else(text.is_null(), _arrow_text("null"), joined),)


def _escape(text: Any) -> Any | None:
    """With a backslash before each quotation mark and backslash; a null is empty. None: a character needs its number.

    All rows at once, as one `bytes`: Arrow's `replace_substring` goes on from one mark to the next, and takes twice as long.
    """
    import numpy as np
    import pyarrow as pa

    body = _bytes_of(text, 0, len(text))
    raw = np.frombuffer(body, np.uint8)
    if raw.min(initial=_FIRST_UNESCAPED) < _FIRST_UNESCAPED:
        return None
    ends = _ends(text)[: len(text) + 1]
    ends = ends - ends[0]
    marks = np.flatnonzero((raw == _MARK) | (raw == _BACKSLASH))
    written = bytes(body).replace(b"\\", b"\\\\").replace(b'"', b'\\"') if len(marks) else body
    places = ends + np.searchsorted(marks, ends)
    return pa.Array.from_buffers(pa.large_string(), len(text), [None, pa.py_buffer(places), pa.py_buffer(written)])


def _arrow_text(text: str) -> Any:
    import pyarrow as pa

    return pa.scalar(text, pa.large_string())


def _bytes_of(text: Any, start: int, end: int) -> Any:
    # A slice of an Arrow column shares the buffers of its whole batch, so its bytes are found by the offsets.
    ends, data = _ends(text), text.buffers()[2]
    return memoryview(data or b"")[int(ends[start]) : int(ends[end])]


def _ends(text: Any) -> Any:
    import numpy as np

    return np.frombuffer(text.buffers()[1], np.int64)[text.offset :]
