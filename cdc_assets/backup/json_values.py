"""Which values stand in a line as JSON: objects on one line, which Arrow's reader takes whole.

Such a value is written to the letter, and read back by its length, so no number, order of keys or blank can change.

Texts are read many at a time, one a line. Each begins with `{` and ends with `}`, so none of them ends within an object that the
next one goes on with: behind a `}` JSON has no `{`. So as many rows as texts means that each is one object. If not, halves are
read: whether a value is JSON depends on nothing but itself, and a batch that is written again has the same bytes.

Arrow's reader takes NaN and infinities for numbers, which JSON (RFC 8259) does not have and MongoDB's connector writes. So texts
with such a word are asked one by one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

_FIRST_PRINTABLE = 0x20
_WORDS = (b"NaN", b"Inf")
_NOBODYS = "a field of no value (cdc_assets)"


def are_json_objects(values: Any) -> Any:
    """Of an Arrow array of bytes: a numpy array of booleans."""
    import numpy as np

    texts = values.to_pylist()
    found = np.array(
        [text is not None and text[:1] == b"{" and text[-1:] == b"}" and _has_no_constant(text) for text in texts], bool
    )
    _leave_out([text or b"" for text in texts], np.flatnonzero(found), found)
    return found


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
    """Clear what is none, by halves."""
    if not len(places) or _all_are_objects([texts[place] for place in places]):
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
