"""A Parquet file of a Delta table, without Spark: written, and told as the `add` of a commit that follows.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

AddFile = dict[str, Any]
"""The fields of an `add`: path, partitionValues, size, modificationTime (ms), dataChange, stats."""
_LONGEST_BOUND = 64
"""Characters. Bounds of longer texts would have to be cut, and are left out."""


def write_file(folder: Path, rows: pa.Table) -> AddFile:
    """The rows as one file; no commit names it yet."""
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    pq.write_table(rows, folder / name, compression="zstd", store_schema=False)
    return {
        "path": name,
        "partitionValues": {},
        "size": (folder / name).stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(_statistics(rows)),
    }


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """Rows, and the bounds of numbers and of short texts, by which readers skip files."""
    least, most, nulls = {}, {}, {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)):
            continue
        bounds = pc.min_max(values).as_py()
        if any(isinstance(bound, str) and len(bound) > _LONGEST_BOUND for bound in bounds.values()):
            continue
        nulls[name] = values.null_count
        if bounds["min"] is not None:
            least[name], most[name] = bounds["min"], bounds["max"]
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
