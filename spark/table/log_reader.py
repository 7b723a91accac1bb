"""A Delta table's transaction log, from its own files: the newest commits, and which commit was the last to change rows.

DESCRIBE HISTORY starts a Spark job each time (0.1 to 0.3 s), and a small cycle asks five times. A commit is one file, whose
`commitInfo` holds all that DESCRIBE HISTORY tells; its `timestamp` is the writer's clock, where DESCRIBE HISTORY takes the
file's time, which a copied file has anew. Files appear whole: Delta renames them into place.

A table's version also goes up where no row changes: a fold that only moves its positions on, OPTIMIZE (`dataChange` is false:
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file), VACUUM, a new property, and a MERGE that
writes a file again as it was.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import Self

from spark.errors import HistoryTooShortError, TableStopError
from spark.table.lake_location import is_local, is_reached
from spark.table.table_folder import LakeFolder, open_folder

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
COMMIT = re.compile(r"\d{20}\.json")
_INFO = '{"commitInfo":'
FIELDS = frozenset({"version", "operation", "operationParameters", "operationMetrics", "userMetadata", "timestamp"})
"""What is told here; `timestamp` in milliseconds since 1970."""
FIRST_LOOK, _LARGEST_LOOK = 20, 2_000
Entry = TypeVar("Entry")
Folding = TypeVar("Folding")
NewestCommits = Callable[[int | None], list[Entry]]
"""So many of the newest commits, or with None all that the log has."""


def newest_commits(path: str, limit: int | None, *, up_to: int | None = None) -> list[dict[str, Any]] | None:
    """By FIELDS, newest first, or from the version `up_to` on backwards; None where the log is not here, so that only Spark can
    tell.

    Raises:
        EndpointError: the lake's object store does not answer.
    """
    if not is_reached(path):
        return None
    folder = open_folder(path)
    try:
        names = _newest_names(folder, limit, up_to)
        commits = folder.map(lambda name: _commit(folder, name), names[:limit] if limit else names)
    except OSError:
        # Not here, not ours to read, or cleaned up meanwhile.
        return None
    return commits or None


def widen(look: NewestCommits[Entry], first: int = FIRST_LOOK) -> Iterator[list[Entry]]:
    """The `first` newest commits, then ten times as many, and so on, until these are all of the log."""
    limit: int | None = first
    while True:
        commits = look(limit)
        yield commits
        if limit is None or len(commits) < limit:
            return
        limit = limit * 10 if limit < _LARGEST_LOOK else None


def fold_newest(
    look: NewestCommits[Entry], fold: Callable[[list[Entry]], Folding], first: int = FIRST_LOOK, *, path: str
) -> Folding:
    """The fold of the `first` newest commits of the table at `path`, or of as many more as it needs.

    Raises:
        HistoryTooShortError: the whole log is too little.
        TableStopError: naming the table: a commit cannot be read.
    """
    for commits in widen(look, first):
        try:
            return fold(commits)
        except HistoryTooShortError as error:
            too_short = error
        except TableStopError as error:
            raise TableStopError(f"{path}: {error}") from error
    raise too_short


def commit_at(path: str, version: int) -> str | None:
    """The userMetadata of one version; None where it has none, or is not here."""
    if not is_reached(path):
        return None
    try:
        text: str | None = _commit(open_folder(path), _name(version))["userMetadata"]
    except OSError:
        return None
    return text


def commit_file(version: int) -> str:
    """The file of a commit, below the table's folder."""
    return f"{LOG}/{_name(version)}"


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
        return commit_names(folder, after=_name(version) if version >= 0 else "")
    newer = itertools.takewhile(lambda number: _is_there(folder.path, number), itertools.count(version + 1))
    return [_name(number) for number in newer]


def last_checkpoint(folder: LakeFolder) -> dict[str, Any] | None:
    """What the log tells of its newest checkpoint: `version`, and its form; None where there is none."""
    try:
        checkpoint: dict[str, Any] = json.loads(folder.read(f"{LOG}/{LAST_CHECKPOINT}"))
    except FileNotFoundError:
        return None
    return checkpoint


def _newest_names(folder: LakeFolder, limit: int | None, up_to: int | None) -> list[str]:
    """The commits' files from the newest on backwards, or from `up_to`."""
    if limit is not None and is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        top = newest if up_to is None else min(newest, up_to)
        older = itertools.takewhile(lambda version: _is_there(folder.path, version), range(top, -1, -1))
        return [_name(version) for version in itertools.islice(older, limit)]
    names = commit_names(folder, after=_long_before(folder, limit, up_to))[::-1]
    return [name for name in names if up_to is None or int(name[:20]) <= up_to]


def _is_there(path: str, version: int) -> bool:
    return os.path.exists(f"{path}/{commit_file(version)}")  # noqa: PTH110 (thrice as fast)


def _name(version: int) -> str:
    return f"{version:020}.json"


def _long_before(folder: LakeFolder, limit: int | None, up_to: int | None) -> str:
    """A name from which on there are `limit` commits: a store lists a thousand at a time, and the newest last."""
    if limit is None or is_local(folder.path):
        return ""
    if up_to is not None:
        return f"{up_to - limit:020}" if up_to > limit else ""
    checkpoint = last_checkpoint(folder)
    return f"{checkpoint['version'] - limit:020}" if checkpoint is not None and checkpoint["version"] > limit else ""


def _commit(folder: LakeFolder, name: str) -> dict[str, Any]:
    info: dict[str, Any] = {}
    with closing(folder.lines(f"{LOG}/{name}")) as lines:
        for line in lines:
            if line.startswith(_INFO):
                info = json.loads(line)["commitInfo"]
                break
    return {field: info.get(field) for field in FIELDS} | {"version": int(name.partition(".")[0])}


_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True)
class ChangeCommit:
    """A commit that changed rows: its version, and its writer's clock in milliseconds since 1970.

    The time tells it from the commit of that number in a table that was made again.
    """

    version: int
    at: int

    def __str__(self) -> str:
        return f"{self.version}@{self.at}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Of `17@1764491122123`; None for any other text."""
        version, _, at = text.partition("@")
        return cls(int(version), int(at)) if version.isdecimal() and at.isdecimal() else None


def last_row_change(path: str, known: ChangeCommit | None = None) -> ChangeCommit | None:
    """The last commit that changed rows; None where there is no table, or only Spark reads its log.

    `known`: what was the last one before. The log is read back to there. Where the log was cleaned up before that, the newest
    commit is taken for one that changed rows.

    Raises:
        EndpointError: the lake's object store does not answer.
    """
    if not is_reached(path):
        return None
    folder = open_folder(path)
    newest = _newest_version(folder, known)
    top: ChangeCommit | None = None
    for version in range(newest, -1, -1):
        commit = _change_commit(folder, version)
        if known is not None and version == known.version and (commit is None or commit[0] == known):
            return known
        if commit is None:
            return top
        top = top or commit[0]
        if commit[1] or version == 0:
            return commit[0]
    # The log's commits behind a checkpoint are gone, and nothing came after them.
    return top


def _newest_version(folder: LakeFolder, known: ChangeCommit | None) -> int:
    """The table's version; -1: there is none."""
    if is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        return newest
    after = _name(known.version - 1) if known is not None and known.version > 0 else ""
    names = commit_names(folder, after=after) or (commit_names(folder) if after else [])
    return int(names[-1][:20]) if names else -1


def _change_commit(folder: LakeFolder, version: int) -> tuple[ChangeCommit, bool] | None:
    """The commit, and whether it changed rows; None where it is gone."""
    info, writes = {}, False
    try:
        with closing(folder.lines(commit_file(version))) as lines:
            for line in lines:
                if line.startswith(_INFO):
                    info = json.loads(line)["commitInfo"]
                elif not writes and line.startswith(('{"add":', '{"remove":')):
                    (file,) = json.loads(line).values()
                    writes = bool(file.get("dataChange"))
    except FileNotFoundError:
        return None
    merged = [(info.get("operationMetrics") or {}).get(name) for name in _MERGED]
    is_empty_merge = info.get("operation") == "MERGE" and all(str(count) == "0" for count in merged)
    return ChangeCommit(version, int(info.get("timestamp") or 0)), writes and not is_empty_merge
