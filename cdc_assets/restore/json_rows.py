"""Values that stand in their lines as JSON, to the letter: each is the last field of its line, and `size` says its bytes."""

from __future__ import annotations

from typing import Any

from cdc_assets.backup.manifest import ManifestObject
from cdc_assets.errors import DamagedObjectError

_NEWLINE, _END = ord("\n"), ord("}")
_NAME = b'"value":'


def json_values(lines: bytes, sizes: Any, item: ManifestObject) -> Any:
    """An Arrow array of bytes: of the rows that have a size (null: none).

    Raises:
        DamagedObjectError: there is no value of that size in its line.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    read = np.frombuffer(lines, np.uint8)
    newlines = np.flatnonzero(read == _NEWLINE)
    if len(newlines) != len(sizes) or not lines.endswith(b"\n"):
        raise DamagedObjectError(item.key, "holds lines that are no record each")
    has_value = pc.is_valid(sizes).to_numpy(zero_copy_only=False)
    length = pc.fill_null(sizes, 0).to_numpy()
    ends = newlines - 1
    starts = ends - length
    begins = np.concatenate([[0], newlines[:-1] + 1])
    asked = np.flatnonzero(has_value)
    name_at = starts[asked] - len(_NAME)
    if np.any(length[asked] < 2) or np.any(name_at < begins[asked]) or np.any(read[ends[asked]] != _END):
        raise DamagedObjectError(item.key, "holds a value of another size than its line says")
    for place, byte in enumerate(_NAME):
        if np.any(read[name_at + place] != byte):
            raise DamagedObjectError(item.key, "holds a value of another size than its line says")
    # What lies between two values is a row as well, of which nobody asks.
    bounds = np.empty(2 * len(starts) + 1, np.int64)
    bounds[0], bounds[1::2], bounds[2::2] = 0, np.maximum(starts, begins), ends
    every = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(lines)])
    rows = pa.array(np.arange(len(starts)) * 2 + 1, mask=~has_value)
    return every.take(rows).cast(pa.binary())
