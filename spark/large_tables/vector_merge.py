"""The changes into a large table as one commit: rows that are gone are marked, new rows are one file.

A change costs a look at the keys, and no rewriting. What would grow with the cycles does not: small files are made one with
the new rows, and a file of which more than half is gone is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.delta.checkpoints import checkpoint
from spark.delta.data_files import AddFile, read_rows, remove_action, rows_there, write_file
from spark.delta.deletion_vectors import read_masks, write_vectors
from spark.delta.delta_rs import Counts, find_version
from spark.delta.live_files import LiveTable, read_live_table
from spark.delta.put_commit import commit_info, put_commit
from spark.errors import LeftToSparkError
from spark.lake.folder import LakeFolder, open_folder
from spark.large_tables.matches import POSITION, FileMatches, find_matches, keep_newer
from spark.large_tables.protocol import upgrade
from spark.silver.table import columns_with_bounds
from spark.specs import SilverSpec

_SMALL_BYTES, _MADE_ONE_BYTES = 4 << 20, 16 << 20
"""A file below the first is made one with the new rows, as long as all such files are below the second."""
_REWRITTEN_BYTES = 256 << 20
"""A larger file is not written anew in a task, however much of it is gone."""


@dataclass(frozen=True)
class LargeTableChanges:
    """One row per key in the table's columns, with `_cdc_op`; `newer`: all are newer than any row of the table. Without a key
    all are new rows.

    Without `vectors` the table gets none: each file with a match is written anew.
    """

    rows: pa.Table
    newer: bool
    vectors: bool = True


def merge_changes(
    table: Any, spec: SilverSpec, changes: LargeTableChanges, metadata: str, operation_id: str
) -> tuple[int, Counts]:
    """One commit: its version, and the rows inserted, updated and deleted.

    Raises:
        LeftToSparkError: the log has changed meanwhile, or has a form that is not read here; nothing is committed.
    """
    folder, live = open_folder(spec.path), read_live_table(spec.path)
    if live.version != table.version():
        raise LeftToSparkError("somebody else has committed to the table meanwhile")
    masks = read_masks(table)
    rows = changes.rows
    matches = find_matches(folder, list(live.files.values()), masks, rows, spec.keys) if spec.keys else []
    late = np.empty(0, np.int64)
    if not changes.newer:
        matches, late = keep_newer(folder, matches, rows[POSITION])
    deletes = pc.equal(rows["_cdc_op"], "d").to_numpy()
    written = ~deletes
    written[late] = False
    matched = np.concatenate([match.changes for match in matches]) if matches else np.empty(0, np.int64)
    removed = int(deletes[matched].sum())
    updated = len(matched) - removed
    counts = {"inserted": int(written.sum()) - updated, "updated": updated, "deleted": removed}
    told = replace(changes, rows=rows.filter(pa.array(written)))
    actions = [*(upgrade(live) if changes.vectors else ()), *_actions(spec, live, masks, matches, told)]
    metrics = {f"numTargetRows{name.capitalize()}": count for name, count in counts.items()}
    put_commit(spec.path, live.version + 1, [commit_info("MERGE", metadata, metrics), *actions])
    checkpoint(table, spec.path, live.version + 1)
    return find_version(spec.path, operation_id), counts


def _actions(
    spec: SilverSpec,
    live: LiveTable,
    masks: Mapping[str, np.ndarray],
    matches: Sequence[FileMatches],
    changes: LargeTableChanges,
) -> list[dict[str, Any]]:
    """The adds and removes: every file with a match changes, and small ones where there are new rows."""
    folder, bounded, new = open_folder(spec.path), columns_with_bounds(spec), changes.rows
    gone = {match.file["path"]: match.rows for match in matches}
    small = _small_files(live) if new.num_rows else frozenset()
    kept, added, removed, marked = [new], list[AddFile](), list[AddFile](), dict[str, np.ndarray]()
    for path, file in live.files.items():
        if path not in gone and path not in small:
            continue
        there = rows_there(_count_rows(folder, file), masks.get(unquote(path)))
        there[gone.get(path, [])] = False
        dead = len(there) - int(there.sum())
        removed.append(file)
        if path in small:
            kept.append(read_rows(folder, file, there, new.schema))
        elif there.any() and changes.vectors and (2 * dead <= len(there) or file["size"] > _REWRITTEN_BYTES):
            marked[path] = there
        elif there.any():
            added.append(write_file(folder, read_rows(folder, file, there, new.schema), bounded))
    rows = pa.concat_tables(kept)
    added += [write_file(folder, rows, bounded)] if rows.num_rows else []
    vectors = write_vectors(folder, {path: np.flatnonzero(~there) for path, there in marked.items()}) if marked else {}
    added += [_with_vector(live.files[path], vector, rows=len(marked[path])) for path, vector in vectors.items()]
    return [*map(remove_action, removed), *({"add": file} for file in added)]


def _small_files(live: LiveTable) -> frozenset[str]:
    """The smallest, as many as are made one at a time."""
    found, room = [], _MADE_ONE_BYTES
    for path, file in sorted(live.files.items(), key=lambda each: each[1]["size"]):
        room -= file["size"]
        if file["size"] >= _SMALL_BYTES or room < 0:
            break
        found.append(path)
    return frozenset(found)


def _count_rows(folder: LakeFolder, file: AddFile) -> int:
    return int(pq.read_metadata(unquote(file["path"]), filesystem=folder.filesystem).num_rows)


def _with_vector(file: AddFile, vector: dict[str, Any], *, rows: int) -> AddFile:
    """Bounds and rows stay those of the whole file, which `tightBounds` says; the rows have to be told."""
    stats = {"numRecords": rows, **json.loads(file.get("stats") or "{}"), "tightBounds": False}
    return {**file, "dataChange": True, "stats": json.dumps(stats), "deletionVector": vector}
