"""The changes into the table, by delta-rs: the MERGE of spark.silver.merge for changes that all hold their whole row.

A commit is believed once the log has it, and looked for after an error as well: the answer may have got lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark.delta.local_log import newest_commits
from spark.errors import CommitLeftOutError, LeftToSparkError
from spark.specs import SilverSpec

MOST_FILES = 64
"""So many files of a table are made one: a MERGE's time follows their number."""
_WRITABLE = frozenset({"appendOnly", "invariants", "timestampNtz"})
_SPILL_BYTES, _LISTED = 512 << 20, 200
_COUNTED = ("inserted", "updated", "deleted")
Counts = dict[str, int]


def refuse_unwritable(table: Any) -> None:
    """What delta-rs 1.6.6 does not write as Spark does: more features of Delta than these.

    Raises:
        LeftToSparkError: Spark writes it.
    """
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _WRITABLE
    if features or (protocol.writer_features is None and protocol.min_writer_version > 2):
        raise LeftToSparkError(f"the table has features of Delta that Spark writes: {', '.join(sorted(features)) or protocol}")
    if table.metadata().configuration.get("delta.enableDeletionVectors") == "true":
        raise LeftToSparkError("the table has deletion vectors")


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


def commit_settings(metadata: str, **more: Any) -> dict[str, Any]:
    """How delta-rs makes a commit of ours: with its metadata, and `more` of CommitProperties. It makes checkpoints; to clean the
    log up it would list that whole at each commit."""
    from deltalake import CommitProperties, PostCommitHookProperties

    return {
        "commit_properties": CommitProperties(custom_metadata={"userMetadata": metadata}, **more),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
    }


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


def attempt(commit: Callable[[], Any], path: str, operation_id: str) -> dict[str, Any]:
    """What the commit tells; nothing where it fails and is in the log all the same.

    Raises:
        LeftToSparkError: it is not.
    """
    from deltalake.exceptions import DeltaError

    try:
        return commit() or {}
    except (DeltaError, OSError, ValueError) as error:
        if _find_version(path, operation_id) is None:
            raise LeftToSparkError(f"delta-rs did not commit: {str(error)[:300]}") from error
        return {}


def find_version(path: str, operation_id: str) -> int:
    """The version that carries our operation id: a write that returned is believed only once it is in the log.

    Raises:
        CommitLeftOutError: none does.
    """
    version = _find_version(path, operation_id)
    if version is None:
        raise CommitLeftOutError(f"{path}: the write returned, but no commit carries operation {operation_id}; run it again")
    return version


def _find_version(path: str, operation_id: str) -> int | None:
    marker = f'"operation_id":"{operation_id}"'
    return next((c["version"] for c in newest_commits(path, 5) or () if marker in (c["userMetadata"] or "")), None)
