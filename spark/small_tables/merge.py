"""The changes into the table, by delta-rs: the MERGE of spark.silver.merge for changes that all hold their whole row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark.delta.deletion_vectors import FEATURE
from spark.delta.delta_rs import Counts, attempt, commit_settings, find_version
from spark.errors import LeftToSparkError
from spark.specs import SilverSpec

MOST_FILES = 64
"""So many files of a table are made one: a MERGE's time follows their number."""
_WRITABLE = frozenset({"appendOnly", "invariants", "timestampNtz"})
_SPILL_BYTES, _LISTED = 512 << 20, 200
_COUNTED = ("inserted", "updated", "deleted")


def refuse_unwritable(table: Any, *, vectors: bool) -> None:
    """What delta-rs 1.6.6 does not write as Spark does, nor we: more features of Delta than these. `vectors`: the table has, or
    gets, deletion vectors (spark.large_tables).

    Raises:
        LeftToSparkError: Spark writes it.
    """
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _WRITABLE
    features -= {FEATURE} if vectors else set()
    if features or (protocol.writer_features is None and protocol.min_writer_version > 2):
        raise LeftToSparkError(f"the table has features of Delta that Spark writes: {', '.join(sorted(features)) or protocol}")


def merge_changes(table: Any, spec: SilverSpec, changes: pa.Table, metadata: str, operation_id: str) -> tuple[int, Counts]:
    """One commit: its version, and the rows inserted, updated and deleted.

    Raises:
        LeftToSparkError: delta-rs refused, and committed nothing.
    """
    same = " AND ".join(f't."{k}" = s."{k}"' for k in spec.keys)
    newer = "s._cdc_position > t._cdc_position"
    values = {f'"{name}"': f's."{name}"' for name in changes.column_names}
    merging = table.merge(
        changes,
        predicate=f"{same}{_keys_by_name(spec, changes)}",
        source_alias="s",
        target_alias="t",
        streamed_exec=False,
        max_spill_size=_SPILL_BYTES,
        **commit_settings(metadata),
    )
    merging = merging.when_matched_delete(predicate=f"{newer} AND s._cdc_op = 'd'").when_matched_update(values, predicate=newer)
    told = attempt(merging.when_not_matched_insert(values, predicate="s._cdc_op <> 'd'").execute, spec.path, operation_id)
    if told and not any(told.get(f"num_target_rows_{name}", 0) for name in _COUNTED):
        _commit_no_rows(table, changes, metadata, spec.path, operation_id)
    return find_version(spec.path, operation_id), {name: int(told.get(f"num_target_rows_{name}", 0)) for name in _COUNTED}


def _commit_no_rows(table: Any, changes: pa.Table, metadata: str, path: str, operation_id: str) -> None:
    """What was folded, where it changes no row: delta-rs commits no MERGE then."""
    from deltalake import write_deltalake

    settings = commit_settings(metadata)
    attempt(lambda: write_deltalake(table, changes.slice(0, 0), mode="append", **settings), path, operation_id)


def compact(table: Any) -> None:
    """Its files made one, where they have become many: a commit without changes of data."""
    if len(table.file_uris()) > MOST_FILES:
        table.update_incremental()
        table.optimize.compact()


def _keys_by_name(spec: SilverSpec, changes: pa.Table) -> str:
    """The few keys of a small batch by name: delta-rs skips files by them, and by one range of keys otherwise."""
    if len(spec.keys) != 1 or not 0 < changes.num_rows <= _LISTED:
        return ""
    values = changes[spec.keys[0]]
    if not pa.types.is_integer(values.type):
        return ""
    return f' AND t."{spec.keys[0]}" IN ({", ".join(map(str, values.to_pylist()))})'
