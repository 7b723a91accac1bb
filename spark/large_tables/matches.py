"""Which rows of a table's files the changes are about: the key's columns are read, of files that may hold one of the keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.data_files import AddFile, read_columns, rows_there
from spark.lake.folder import LakeFolder

POSITION = "_cdc_position"
_THREADS = 2


@dataclass(frozen=True)
class FileMatches:
    """Row numbers in a file, ascending, and for each the number of the change that is about it."""

    file: AddFile
    rows: np.ndarray
    changes: np.ndarray

    def select(self, kept: np.ndarray) -> FileMatches:
        """Those of the matches."""
        return FileMatches(self.file, self.rows[kept], self.changes[kept])


def find_matches(
    folder: LakeFolder, files: Sequence[AddFile], masks: Mapping[str, np.ndarray], changes: pa.Table, keys: Sequence[str]
) -> list[FileMatches]:
    """Of each file with a match, its matches among the rows that are there; `masks` as read_masks."""
    likely = [file for file in files if _may_hold(file, changes, keys)]
    wanted = changes.select(list(keys))

    def look(file: AddFile) -> FileMatches:
        held = read_columns(folder, file, keys)
        rows, numbers = _match(held, wanted, keys)
        there = rows_there(held.num_rows, masks.get(unquote(file["path"])))
        return FileMatches(file, rows, numbers).select(there[rows])

    with ThreadPoolExecutor(_THREADS) as pool:
        return [found for found in pool.map(look, likely) if len(found.rows)]


def keep_newer(
    folder: LakeFolder, matches: Sequence[FileMatches], positions: pa.ChunkedArray
) -> tuple[list[FileMatches], np.ndarray]:
    """The matches whose change is newer than the row, and the numbers of the changes that are not newer than theirs."""
    kept, late = [], [np.empty(0, np.int64)]
    for match in matches:
        held = read_columns(folder, match.file, [POSITION])[POSITION]
        newer = pc.greater(positions.take(pa.array(match.changes)), held.take(pa.array(match.rows))).to_numpy()
        kept.append(match.select(newer))
        late.append(match.changes[~newer])
    return [match for match in kept if len(match.rows)], np.concatenate(late)


def _may_hold(file: AddFile, changes: pa.Table, keys: Sequence[str]) -> bool:
    """By the bounds of the whole numbers among the keys; other types' bounds have forms of their own in a log."""
    stats = json.loads(file.get("stats") or "{}")
    for key in keys:
        if not pa.types.is_integer(changes[key].type):
            continue
        least, most = stats.get("minValues", {}).get(key), stats.get("maxValues", {}).get(key)
        if least is None or most is None:
            continue
        if not pc.any(pc.and_(pc.greater_equal(changes[key], least), pc.less_equal(changes[key], most))).as_py():
            return False
    return True


def _match(held: pa.Table, wanted: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of `held`, ascending, and the numbers of the rows of `wanted` with the same key."""
    if len(keys) == 1:
        values = wanted[keys[0]].combine_chunks()
        found = pc.index_in(held[keys[0]].cast(values.type), value_set=values)
        at = found.combine_chunks().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~np.isnan(at)) if found.null_count else np.arange(len(at))
        return rows, at[rows].astype(np.int64)
    held = held.cast(wanted.schema).append_column("_cdc_row", pa.array(np.arange(held.num_rows)))
    both = held.join(wanted.append_column("_cdc_change", pa.array(np.arange(wanted.num_rows))), list(keys), join_type="inner")
    both = both.sort_by("_cdc_row")
    return both["_cdc_row"].to_numpy(), both["_cdc_change"].to_numpy()
