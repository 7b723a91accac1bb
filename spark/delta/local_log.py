"""The newest commits of a Delta table, from the log's own files, wherever the lake lies.

DESCRIBE HISTORY starts a Spark job each time (0.1 to 0.3 s), and a small cycle asks five times. A commit is one file, whose
`commitInfo` holds all that DESCRIBE HISTORY tells; its `timestamp` is the writer's clock, where DESCRIBE HISTORY takes the file's
time, which a copied file has anew. Files appear whole: Delta renames them into place.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from contextlib import closing
from typing import Any

from spark.lake.folder import LakeFolder, open_folder
from spark.lake.place import is_local, is_reached

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
COMMIT = re.compile(r"\d{20}\.json")
_INFO = '{"commitInfo":'
FIELDS = frozenset({"version", "operation", "operationParameters", "operationMetrics", "userMetadata", "timestamp"})
"""What is told here; `timestamp` in milliseconds since 1970."""


def newest_commits(path: str, limit: int | None, *, up_to: int | None = None) -> list[dict[str, Any]] | None:
    """By FIELDS, newest first, or from the version `up_to` on backwards; None where the log is not here, so that only Spark can
    tell.

    Raises:
        LakeStoreError: the lake's object store does not answer.
    """
    if not is_reached(path):
        return None
    folder = open_folder(path)
    try:
        names = _newest_names(folder, limit, up_to)
        found = folder.map(lambda name: _commit(folder, name), names[:limit] if limit else names)
    except OSError:
        # Not here, not ours to read, or cleaned up meanwhile.
        return None
    return found or None


def commit_at(path: str, version: int) -> str | None:
    """The userMetadata of one version; None where it has none, or is not here."""
    if not is_reached(path):
        return None
    try:
        text: str | None = _commit(open_folder(path), f"{version:020}.json")["userMetadata"]
    except OSError:
        return None
    return text


def commit_names(folder: LakeFolder, *, after: str = "") -> list[str]:
    """The files of a table's commits, oldest first."""
    return [name for name in folder.names(LOG, after=after) if COMMIT.fullmatch(name)]


def newest_here(path: str) -> int | None:
    """The newest version of a table on this machine's disk, found from its newest checkpoint on; None where that does not lead
    there. To list the folder takes as long as the log is."""
    told = last_checkpoint(open_folder(path))
    if told is None or not _is_there(path, version := int(told["version"])):
        return None
    while _is_there(path, version + 1):
        version += 1
    return version


def names_after(folder: LakeFolder, version: int) -> list[str]:
    """The files of the commits above a version, oldest first; -1: of all."""
    if version < 0 or not is_local(folder.path):
        return commit_names(folder, after=_name(version) if version >= 0 else "")
    newer = itertools.takewhile(lambda each: _is_there(folder.path, each), itertools.count(version + 1))
    return [_name(each) for each in newer]


def last_checkpoint(folder: LakeFolder) -> dict[str, Any] | None:
    """What the log tells of its newest checkpoint: `version`, and its form; None where there is none."""
    try:
        told: dict[str, Any] = json.loads(folder.read(f"{LOG}/{LAST_CHECKPOINT}"))
    except FileNotFoundError:
        return None
    return told


def _newest_names(folder: LakeFolder, limit: int | None, up_to: int | None) -> list[str]:
    """The commits' files from the newest on backwards, or from `up_to`."""
    if limit is not None and is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        top = newest if up_to is None else min(newest, up_to)
        older = itertools.takewhile(lambda version: _is_there(folder.path, version), range(top, -1, -1))
        return [_name(version) for version in itertools.islice(older, limit)]
    names = commit_names(folder, after=_long_before(folder, limit, up_to))[::-1]
    return [name for name in names if up_to is None or int(name[:20]) <= up_to]


def _is_there(path: str, version: int) -> bool:
    return os.path.exists(f"{path}/{LOG}/{_name(version)}")  # noqa: PTH110 (thrice as fast)


def _name(version: int) -> str:
    return f"{version:020}.json"


def _long_before(folder: LakeFolder, limit: int | None, up_to: int | None) -> str:
    """A name from which on there are `limit` commits: a store lists a thousand at a time, and the newest last."""
    if limit is None or is_local(folder.path):
        return ""
    if up_to is not None:
        return f"{up_to - limit:020}" if up_to > limit else ""
    told = last_checkpoint(folder)
    return f"{told['version'] - limit:020}" if told is not None and told["version"] > limit else ""


def _commit(folder: LakeFolder, name: str) -> dict[str, Any]:
    info: dict[str, Any] = {}
    with closing(folder.lines(f"{LOG}/{name}")) as lines:
        for line in lines:
            if line.startswith(_INFO):
                info = json.loads(line)["commitInfo"]
                break
    return {field: info.get(field) for field in FIELDS} | {"version": int(name.partition(".")[0])}
