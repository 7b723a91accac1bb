"""The files of a Delta table's transaction log: which there are, and what one commit or one checkpoint holds.

DESCRIBE HISTORY starts a Spark job each time (0.1 to 0.3 s), and a small cycle asks five times. A commit is one file, whose
`commitInfo` holds all that DESCRIBE HISTORY tells; its `timestamp` is the writer's clock, where DESCRIBE HISTORY takes the
file's time, which a copied file has anew. Files appear whole: Delta renames them into place. What they say together is
spark.table.delta_table's to tell.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from spark.table.lake_location import is_local
from spark.table.table_folder import LakeFolder, open_folder

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
COMMIT = re.compile(r"\d{20}\.json")
CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
COMMIT_INFO = '{"commitInfo":'
FIELDS = frozenset({"version", "operation", "operationParameters", "operationMetrics", "userMetadata", "timestamp"})
"""What is told of a commit; `timestamp` in milliseconds since 1970."""
_MAPS = frozenset({"partitionValues", "configuration", "options", "tags"})


def commit_file(version: int) -> str:
    """The file of a commit, below the table's folder."""
    return f"{LOG}/{commit_name(version)}"


def commit_name(version: int) -> str:
    """The file of a commit, below the log's folder."""
    return f"{version:020}.json"


def commit_names(folder: LakeFolder, *, after: str = "") -> list[str]:
    """The files of a table's commits, oldest first."""
    return [name for name in folder.names(LOG, after=after) if COMMIT.fullmatch(name)]


def newest_here(path: str) -> int | None:
    """The newest version of a table on this machine's disk, found from its newest checkpoint on; None where that does not lead
    there. To list the folder takes as long as the log is."""
    checkpoint = last_checkpoint(open_folder(path))
    if checkpoint is None or not _is_there(path, version := int(checkpoint["version"])):
        return None
    while _is_there(path, version + 1):
        version += 1
    return version


def names_after(folder: LakeFolder, version: int) -> list[str]:
    """The files of the commits above a version, oldest first; -1: of all."""
    if version < 0 or not is_local(folder.path):
        return commit_names(folder, after=commit_name(version) if version >= 0 else "")
    newer = itertools.takewhile(lambda number: _is_there(folder.path, number), itertools.count(version + 1))
    return [commit_name(number) for number in newer]


def newest_names(folder: LakeFolder, limit: int | None, up_to: int | None) -> list[str]:
    """The commits' files from the newest on backwards, or from `up_to`: `limit` of them, or more."""
    if limit is not None and is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        top = newest if up_to is None else min(newest, up_to)
        older = itertools.takewhile(lambda version: _is_there(folder.path, version), range(top, -1, -1))
        return [commit_name(version) for version in itertools.islice(older, limit)]
    names = commit_names(folder, after=_long_before(folder, limit, up_to))[::-1]
    return [name for name in names if up_to is None or int(name[:20]) <= up_to]


def read_commit(folder: LakeFolder, name: str) -> dict[str, Any] | None:
    """A commit by FIELDS; None where its file is gone."""
    info: dict[str, Any] = {}
    try:
        with closing(folder.lines(f"{LOG}/{name}")) as lines:
            for line in lines:
                if line.startswith(COMMIT_INFO):
                    info = json.loads(line)["commitInfo"]
                    break
    except FileNotFoundError:
        return None
    return {field: info.get(field) for field in FIELDS} | {"version": int(name.partition(".")[0])}


def last_checkpoint(folder: LakeFolder) -> dict[str, Any] | None:
    """What the log tells of its newest checkpoint: `version`, and its form; None where there is none."""
    try:
        checkpoint: dict[str, Any] = json.loads(folder.read(f"{LOG}/{LAST_CHECKPOINT}"))
    except FileNotFoundError:
        return None
    return checkpoint


def read_checkpoint(folder: LakeFolder, version: int, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The actions of these kinds in a version's checkpoint.

    Raises:
        OSError: it is not one file, or not to be read here.
    """
    import pyarrow.parquet as pq

    checkpoint = pq.ParquetFile(f"{LOG}/{version:020}.checkpoint.parquet", filesystem=folder.filesystem)
    rows = checkpoint.read(columns=[kind for kind in kinds if kind in checkpoint.schema_arrow.names])
    for name in rows.column_names:
        for value in rows[name].drop_null().to_pylist():
            yield {name: {key: _as_json(key, field) for key, field in value.items() if field is not None}}


def _as_json(key: str, value: Any) -> Any:
    """Parquet has a map as pairs, and a struct with all of its fields."""
    if key in _MAPS:
        return dict(value)
    if isinstance(value, dict):
        return {name: _as_json(name, inner) for name, inner in value.items() if inner is not None}
    return value


def _is_there(path: str, version: int) -> bool:
    return os.path.exists(f"{path}/{commit_file(version)}")  # noqa: PTH110 (thrice as fast)


def _long_before(folder: LakeFolder, limit: int | None, up_to: int | None) -> str:
    """A name from which on there are `limit` commits: a store lists a thousand at a time, and the newest last."""
    if limit is None or is_local(folder.path):
        return ""
    if up_to is not None:
        return f"{up_to - limit:020}" if up_to > limit else ""
    checkpoint = last_checkpoint(folder)
    return f"{checkpoint['version'] - limit:020}" if checkpoint is not None and checkpoint["version"] > limit else ""
