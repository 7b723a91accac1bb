"""Windows of a ledger that are older than they are to be kept: taken out by one commit.

The commit also says from when on there are windows (FLOOR).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.data_files import AddFile, read_rows, write_file
from spark.delta.live_files import LiveTable
from spark.errors import LeftToSparkError
from spark.lake.folder import open_folder
from spark.maintenance.rewriting import replace_files, schema_of

FLOOR = "cdc.ledgerFrom"
"""Table property: seconds since 1970 from which on there are windows."""
A_DAY = 86_400
"""So often at most: each time files are written anew."""


@dataclass(frozen=True)
class OldWindows:
    """Windows that begin before `until` (seconds since 1970), but for those in `kept`: (table, begin in seconds, op)."""

    until: int
    kept: frozenset[tuple[str, int, str]] = frozenset()


def floor_of(live: LiveTable) -> int:
    """From when on the ledger has windows, in seconds since 1970; 0: from the very first."""
    return int((live.metadata.get("configuration") or {}).get(FLOOR, 0))


def is_due(live: LiveTable, old: OldWindows) -> bool:
    """Whether windows of a whole day can go."""
    return old.until - floor_of(live) >= A_DAY


def count_old(path: str, live: LiveTable, old: OldWindows) -> int:
    """How many rows of the ledger would go."""
    if not is_due(live, old):
        return 0
    folder, schema = open_folder(path), schema_of(live)
    return sum(pc.sum(_is_old(read_rows(folder, file, None, schema), old)).as_py() or 0 for file in live.files.values())


def remove_old(path: str, live: LiveTable, old: OldWindows) -> int:
    """How many rows went.

    Raises:
        LeftToSparkError: a writer has come before, or it has vectors; nothing is removed.
    """
    if not is_due(live, old):
        return 0
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no ledger of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), 0
    removed, kept = list[AddFile](), list[pa.Table]()
    for file in live.files.values():
        rows = read_rows(folder, file, None, schema)
        is_old = _is_old(rows, old)
        count = pc.sum(is_old).as_py() or 0
        if count:
            gone += count
            removed.append(file)
            kept.append(rows.filter(pc.invert(is_old)))
    rows = pa.concat_tables(kept) if kept else None
    added = [write_file(folder, rows)] if rows is not None and rows.num_rows else []
    replace_files(path, live, removed, added, operation="DELETE", also=[{"metaData": _with_floor(live, old.until)}])
    return gone


def _is_old(rows: pa.Table, old: OldWindows) -> pa.ChunkedArray:
    begin = pc.divide(rows["window_start"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000_000)
    is_old = pc.less(begin, old.until)
    if not old.kept:
        return is_old
    return pc.and_(is_old, pc.invert(_is_kept(rows, begin, old)))


def _is_kept(rows: pa.Table, begin: pa.ChunkedArray, old: OldWindows) -> pa.Array:
    places: Sequence[tuple[Any, ...]] = list(
        zip(rows["table"].to_pylist(), begin.to_pylist(), rows["op"].to_pylist(), strict=True)
    )
    return pa.array([place in old.kept for place in places], pa.bool_())


def _with_floor(live: LiveTable, until: int) -> dict[str, Any]:
    return {**live.metadata, "configuration": {**(live.metadata.get("configuration") or {}), FLOOR: str(until)}}
