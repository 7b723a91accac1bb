"""Folded changes into a silver table inside a task, as one commit and without Spark: each only above the row's own
position.

In a large table the rows that are gone are marked in deletion vectors and the new ones are one file, so that a change
costs a look at the keys. A table without vectors has the files that hold a changed row written anew by the same code,
one after the other. A table with features of Delta that only Spark writes is left to Spark
(LeftToSparkError), with nothing committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.errors import LeftToSparkError
from spark.events.arrow_records import leave_first
from spark.silver.row_fold import OF_TABLE, POSITION, above
from spark.silver.silver_table import columns_with_bounds
from spark.silver.typed_changes import key_slots, slot
from spark.specs import DELETED, META, SilverSpec
from spark.table.data_files import (
    FEATURE,
    PROPERTY,
    AddFile,
    read_columns,
    read_masks,
    read_rows,
    remove_action,
    rows_there,
    write_file,
    write_vectors,
)
from spark.table.delta_rs import RowCounts
from spark.table.delta_table import LiveTable, commit_info, table_of
from spark.table.table_folder import LakeFolder, open_folder


@dataclass(frozen=True)
class TableSize:
    """Of all files that a table's newest commit names."""

    bytes: int
    rows: int


def size_of(delta: Any) -> TableSize:
    """Of a table that delta-rs has opened; files that do not say their rows count none."""
    files = delta.get_add_actions(flatten=True)
    return TableSize(sum(files["size_bytes"].to_pylist()), sum(filter(None, files["num_records"].to_pylist())))


_WRITABLE = frozenset({"appendOnly", "invariants", "timestampNtz"})


def refuse_unwritable(table: Any, *, vectors: bool) -> None:
    """What delta-rs 1.6.6 does not write as Spark does, nor we: more features of Delta than these. `vectors`: the table has, or
    gets, deletion vectors (merge_by_vectors).

    Raises:
        LeftToSparkError: Spark writes it.
    """
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _WRITABLE
    features -= {FEATURE} if vectors else set()
    if features or (protocol.writer_features is None and protocol.min_writer_version > 2):
        raise LeftToSparkError(f"the table has features of Delta that Spark writes: {', '.join(sorted(features)) or protocol}")


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
    changed_keys = changes.select(list(keys))

    def look(file: AddFile) -> FileMatches:
        file_keys = read_columns(folder, file, keys)
        rows, numbers = _match(file_keys, changed_keys, keys)
        there = rows_there(file_keys.num_rows, masks.get(unquote(file["path"])))
        return FileMatches(file, rows, numbers).select(there[rows])

    with ThreadPoolExecutor(_THREADS) as pool:
        return [matched for matched in pool.map(look, likely) if len(matched.rows)]


def keep_newer(
    folder: LakeFolder, matches: Sequence[FileMatches], positions: pa.ChunkedArray, forced: np.ndarray
) -> tuple[list[FileMatches], np.ndarray]:
    """The matches whose change is newer than the row, or `forced`, and the numbers of the changes that are neither."""
    kept, late = [], [np.empty(0, np.int64)]
    for match in matches:
        held_positions = read_columns(folder, match.file, [POSITION])[POSITION]
        newer = pc.greater(positions.take(pa.array(match.changes)), held_positions.take(pa.array(match.rows))).to_numpy()
        newer = newer | np.isin(match.changes, forced)
        kept.append(match.select(newer))
        late.append(match.changes[~newer])
    return [match for match in kept if len(match.rows)], np.concatenate(late)


def of_keys(rows: pa.Table, chosen: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows with a key that is among those chosen."""
    return rows.take(pa.array(_match(rows.select(list(keys)), chosen.select(list(keys)), keys)[0]))


def without_keys(rows: pa.Table, chosen: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows of all other keys."""
    others = np.ones(rows.num_rows, bool)
    others[_match(rows.select(list(keys)), chosen.select(list(keys)), keys)[0]] = False
    return rows.filter(pa.array(others))


def rows_as_events(table: Any, spec: SilverSpec, events: pa.Table, truncated: str | None) -> pa.Table:
    """What the opened `table` has of the keys of these events, as an event each (row_fold.OF_TABLE); rows below `truncated` are
    gone, and one that is marked as deleted is a delete."""
    if table is None:
        return events.schema.empty_table()
    names = {slot(i): column.name for i, column in enumerate(spec.columns)}
    folder, live = open_folder(spec.path), table_of(spec.path).snapshot(table.version())
    chosen = events.select(key_slots(spec)).rename_columns(list(spec.keys))
    matches = find_matches(folder, list(live.files.values()), read_masks(table), chosen, spec.keys)
    own = [pa.field(names.get(f.name, f.name), f.type) for f in events.schema if f.name in names or f.name in META]
    schema = pa.schema([*own, pa.field(DELETED, pa.bool_())])
    filed = [read_rows(folder, match.file, None, schema).take(pa.array(match.rows)) for match in matches]
    rows = above(pa.concat_tables([schema.empty_table(), *filed]), truncated)
    values = {name: pa.array([value] * rows.num_rows) for name, value in (("topic", OF_TABLE), ("partition", -1), ("offset", -1))}
    values |= {name: rows[column] for name, column in names.items()} | {name: rows[name] for name in META}
    values["_cdc_op"] = pc.if_else(rows[DELETED].fill_null(False), "d", "r")
    return pa.table([values.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in events.schema], names=events.schema.names).cast(
        events.schema
    )


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


def _match(file_rows: pa.Table, changed_keys: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of `file_rows`, ascending, and the numbers of the rows of `changed_keys` with the same key."""
    if len(keys) == 1:
        values = changed_keys[keys[0]].combine_chunks()
        numbers = pc.index_in(file_rows[keys[0]].cast(values.type), value_set=values)
        at = numbers.combine_chunks().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~np.isnan(at)) if numbers.null_count else np.arange(len(at))
        return rows, at[rows].astype(np.int64)
    numbered = file_rows.cast(changed_keys.schema).append_column("_cdc_row", pa.array(np.arange(file_rows.num_rows)))
    both = numbered.join(
        changed_keys.append_column("_cdc_change", pa.array(np.arange(changed_keys.num_rows))), list(keys), join_type="inner"
    )
    both = both.sort_by("_cdc_row")
    return both["_cdc_row"].to_numpy(), both["_cdc_change"].to_numpy()


_LEGACY = ("appendOnly", "invariants")
"""What writer version 2 means, which a table with features has to list."""


def upgrade_protocol(live: LiveTable) -> list[dict[str, Any]]:
    """The actions that do it; none where it is done.

    Its protocol names them, and its property lets all writers make them:
    https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features
    """
    actions: list[dict[str, Any]] = []
    if FEATURE not in (live.protocol.get("writerFeatures") or ()):
        readers = [*(live.protocol.get("readerFeatures") or ()), FEATURE]
        writers = [*(live.protocol.get("writerFeatures") or _LEGACY), FEATURE]
        versions = {"minReaderVersion": 3, "minWriterVersion": 7}
        actions.append({"protocol": {**versions, "readerFeatures": readers, "writerFeatures": writers}})
    configuration = live.metadata.get("configuration") or {}
    if configuration.get(PROPERTY) != "true":
        actions.append({"metaData": {**live.metadata, "configuration": {**configuration, PROPERTY: "true"}}})
    return actions


_SMALL_BYTES, _MADE_ONE_BYTES = 4 << 20, 16 << 20
"""A file below the first is made one with the new rows, as long as all such files are below the second."""
_REWRITTEN_BYTES = 256 << 20
"""A larger file is not written anew in a task, however much of it is gone."""


@dataclass(frozen=True)
class LargeTableChanges:
    """One row per key in the table's columns, with `_cdc_op`; `newer`: all are newer than any row of the table. Without a key
    all are new rows.

    Without `vectors` the table gets none: each file with a match is written anew. `forced` are the numbers of the rows that count
    whatever the table's row is; rows of the table below `truncated` go.
    """

    rows: pa.Table
    newer: bool
    vectors: bool = True
    forced: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    truncated: str | None = None


def merge_by_vectors(
    table: Any, spec: SilverSpec, changes: LargeTableChanges, metadata: str, operation_id: str
) -> tuple[int, RowCounts]:
    """One commit: its version, and the rows inserted, updated and deleted.

    A change costs a look at the keys, and no rewriting. What would grow with the cycles does not: small files are made
    one with the new rows, and a file of which more than half is gone is written anew.

    Raises:
        LeftToSparkError: the log has changed meanwhile, or has a form that is not read here; nothing is committed.
    """
    folder, live = open_folder(spec.path), table_of(spec.path).snapshot()
    leave_first({"somebody else has committed to the table meanwhile": live.version != table.version()})
    masks = read_masks(table)
    rows = changes.rows
    matches = find_matches(folder, list(live.files.values()), masks, rows, spec.keys) if spec.keys else []
    late = np.empty(0, np.int64)
    if not changes.newer:
        matches, late = keep_newer(folder, matches, rows[POSITION], changes.forced)
    deletes = pc.equal(rows["_cdc_op"], "d").to_numpy() & (spec.deletes == "hard")
    written = ~deletes
    written[late] = False
    matched = np.concatenate([match.changes for match in matches]) if matches else np.empty(0, np.int64)
    removed = int(deletes[matched].sum())
    updated = len(matched) - removed
    gone = {match.file["path"]: match.rows for match in matches}
    if changes.truncated is not None:
        removed += _add_truncated(folder, live, masks, gone, changes.truncated)
    counts = {"inserted": int(written.sum()) - updated, "updated": updated, "deleted": removed}
    written_changes = replace(changes, rows=rows.filter(pa.array(written)))
    actions = [*(upgrade_protocol(live) if changes.vectors else ()), *_actions(spec, live, masks, gone, written_changes)]
    metrics = {f"numTargetRows{name.capitalize()}": count for name, count in counts.items()}
    table_of(spec.path).commit(live.version, [commit_info("MERGE", metadata, metrics), *actions])
    return table_of(spec.path).find_commit(operation_id).version, counts


def _add_truncated(
    folder: LakeFolder, live: LiveTable, masks: Mapping[str, np.ndarray], gone: dict[str, np.ndarray], truncated: str
) -> int:
    """Put the rows below a TRUNCATE among those that are gone, by file; how many more that are."""
    count = 0
    for path, file in live.files.items():
        below = pc.less(read_columns(folder, file, [POSITION])[POSITION], truncated).to_numpy()
        below &= rows_there(len(below), masks.get(unquote(path)))
        below[gone.get(path, [])] = False
        if below.any():
            count += int(below.sum())
            gone[path] = np.union1d(gone.get(path, np.empty(0, np.int64)), np.flatnonzero(below))
    return count


def _actions(
    spec: SilverSpec,
    live: LiveTable,
    masks: Mapping[str, np.ndarray],
    gone: Mapping[str, np.ndarray],
    changes: LargeTableChanges,
) -> list[dict[str, Any]]:
    """The adds and removes: every file with a match changes, and small ones where there are new rows."""
    folder, bounded, new = open_folder(spec.path), columns_with_bounds(spec), changes.rows
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
    smallest, room = [], _MADE_ONE_BYTES
    for path, file in sorted(live.files.items(), key=lambda item: item[1]["size"]):
        room -= file["size"]
        if file["size"] >= _SMALL_BYTES or room < 0:
            break
        smallest.append(path)
    return frozenset(smallest)


def _count_rows(folder: LakeFolder, file: AddFile) -> int:
    return int(pq.read_metadata(unquote(file["path"]), filesystem=folder.filesystem).num_rows)


def _with_vector(file: AddFile, vector: dict[str, Any], *, rows: int) -> AddFile:
    """Bounds and rows stay those of the whole file, which `tightBounds` says; the rows have to be told."""
    stats = {"numRecords": rows, **json.loads(file.get("stats") or "{}"), "tightBounds": False}
    return {**file, "dataChange": True, "stats": json.dumps(stats), "deletionVector": vector}
