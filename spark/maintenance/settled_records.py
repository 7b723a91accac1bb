"""Records of a quarantine that have been folded after all, and long ago: taken out by one commit.

Open records stay, also those that a later event has superseded: a person still has to see them. So do those that were given up:
whoever folds bronze again leaves them out because of their row here (spark.silver.quarantine.without_dropped).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.data_files import AddFile, read_columns, read_rows, write_file
from spark.delta.live_files import LiveTable
from spark.errors import LeftToSparkError
from spark.lake.folder import LakeFolder, open_folder
from spark.maintenance.rewriting import replace_files, schema_of

_TOLD = ("redriven_at", "dropped_at", "position", "built_on")


@dataclass(frozen=True)
class SettledRecords:
    """Those redriven before `until` (microseconds since 1970) and before silver's version `version` was made.

    `until` is at most the newest mark that the table's history has heeded (Folded.settled), where it has one.
    """

    until: int
    version: int


def count_settled(path: str, live: LiveTable, settled: SettledRecords) -> int:
    """How many records would go; of their bytes nothing is read."""
    return sum(pc.sum(mask).as_py() or 0 for _, mask in _masks(open_folder(path), live, settled))


def remove_settled(path: str, live: LiveTable, settled: SettledRecords) -> int:
    """How many records went.

    Raises:
        LeftToSparkError: a writer has come before, or it has vectors; nothing is removed.
    """
    if any(file.get("deletionVector") for file in live.files.values()):
        raise LeftToSparkError("somebody has deleted rows by vectors, which no quarantine of ours has")
    folder, schema, gone = open_folder(path), schema_of(live), 0
    removed, kept = list[AddFile](), list[pa.Table]()
    for file, mask in _masks(folder, live, settled):
        if count := pc.sum(mask).as_py() or 0:
            gone += count
            removed.append(file)
            kept.append(read_rows(folder, file, None, schema).filter(pc.invert(mask)))
    if not removed:
        return 0
    rows = pa.concat_tables(kept)
    added = [write_file(folder, rows)] if rows.num_rows else []
    try:
        replace_files(path, live, removed, added, operation="DELETE")
    except LeftToSparkError:
        for made in added:
            folder.delete(made["path"])
        raise
    return gone


def _masks(folder: LakeFolder, live: LiveTable, settled: SettledRecords) -> Iterator[tuple[AddFile, pa.ChunkedArray]]:
    """Which rows of each file go."""
    for file in live.files.values():
        rows = read_columns(folder, file, _TOLD)
        redriven_at = rows["redriven_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        is_old = pc.fill_null(pc.less(redriven_at, settled.until), False)
        # An attempt that was killed before silver's commit has marked what its next attempt still has to fold.
        is_folded = pc.fill_null(pc.less(rows["built_on"], settled.version), False)
        # Without a position of its own nobody could say its fate but by its row here (spark.ledger.fates).
        known = pc.and_(pc.is_valid(rows["position"]), pc.is_null(rows["dropped_at"]))
        yield file, pc.and_(pc.and_(is_old, is_folded), known)
