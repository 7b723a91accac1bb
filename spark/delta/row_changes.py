"""Which commit of a Delta table was the last to change rows.

A table's version also goes up where no row changes: a fold that only moves its positions on, OPTIMIZE (`dataChange` is false:
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file), VACUUM, a new property, and a MERGE that
writes a file again as it was.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass

from typing_extensions import Self

from spark.delta.local_log import LOG, commit_names, newest_here
from spark.lake.folder import LakeFolder, open_folder
from spark.lake.place import is_local, is_reached

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
        LakeStoreError: the lake's object store does not answer.
    """
    if not is_reached(path):
        return None
    folder = open_folder(path)
    newest = _newest(folder, known)
    top: ChangeCommit | None = None
    for version in range(newest, -1, -1):
        found = _commit(folder, version)
        if known is not None and version == known.version and (found is None or found[0] == known):
            return known
        if found is None:
            return top
        top = top or found[0]
        if found[1] or version == 0:
            return found[0]
    # The log's commits behind a checkpoint are gone, and nothing came after them.
    return top


def _newest(folder: LakeFolder, known: ChangeCommit | None) -> int:
    """The table's version; -1: there is none."""
    if is_local(folder.path) and (newest := newest_here(folder.path)) is not None:
        return newest
    after = f"{known.version - 1:020}.json" if known is not None and known.version > 0 else ""
    names = commit_names(folder, after=after) or (commit_names(folder) if after else [])
    return int(names[-1][:20]) if names else -1


def _commit(folder: LakeFolder, version: int) -> tuple[ChangeCommit, bool] | None:
    """The commit, and whether it changed rows; None where it is gone."""
    info, writes = {}, False
    try:
        with closing(folder.lines(f"{LOG}/{version:020}.json")) as lines:
            for line in lines:
                if line.startswith('{"commitInfo":'):
                    info = json.loads(line)["commitInfo"]
                elif not writes and line.startswith(('{"add":', '{"remove":')):
                    (file,) = json.loads(line).values()
                    writes = bool(file.get("dataChange"))
    except FileNotFoundError:
        return None
    merged = [(info.get("operationMetrics") or {}).get(name) for name in _MERGED]
    is_empty_merge = info.get("operation") == "MERGE" and all(str(count) == "0" for count in merged)
    return ChangeCommit(version, int(info.get("timestamp") or 0)), writes and not is_empty_merge
