"""Commits that delta-rs makes for us: how, and whether it did: an error may have lost no more than the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark.delta.local_log import newest_commits
from spark.errors import CommitLeftOutError, LeftToSparkError
from spark.lake.store_options import delta_options

Counts = dict[str, int]
"""Rows of a merge by what became of them: `inserted`, `updated`, `deleted`."""


def open_delta(path: str, *, version: int | None = None) -> Any:
    """The Delta table at the path, wherever the lake lies."""
    from deltalake import DeltaTable

    return DeltaTable(path, version=version, storage_options=delta_options(path))


def is_delta(path: str) -> bool:
    """Whether there is a Delta table at the path."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(path, storage_options=delta_options(path)))


def commit_settings(metadata: str, **more: Any) -> dict[str, Any]:
    """How delta-rs makes a commit of ours: with its metadata, and `more` of CommitProperties. It makes checkpoints; to clean the
    log up it would list that whole at each commit."""
    from deltalake import CommitProperties, PostCommitHookProperties

    return {
        "commit_properties": CommitProperties(custom_metadata={"userMetadata": metadata}, **more),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
    }


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
