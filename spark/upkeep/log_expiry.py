"""What the folder of a Delta log holds, and what no version that is kept needs of it: commits below a checkpoint, and
data files that no commit from there on names.

Files of the log go in the order of their versions, so a kill leaves a log that only begins later. A data file goes
where neither the oldest kept version nor a later commit names it, and it is older than any writer's work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from spark.errors import LeftToSparkError
from spark.table.data_files import file_of_vector
from spark.table.delta_table import table_of
from spark.table.log_reader import COMMIT, LOG, commit_names, last_checkpoint
from spark.table.table_folder import LakeFolder, is_hidden, open_folder

_OF_VERSION = re.compile(r"\.{0,2}(\d{20})\.[\w.-]+")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")


@dataclass(frozen=True)
class LogFiles:
    """A log's files: `by_version` are all that belong to a version, also checksums; `commits` by version, with their time
    (seconds since 1970); `checkpoints` ascending; `last_checkpoint` is the one that readers begin with, -1 for none; `now` is
    when the log was listed, by the clock of those times."""

    by_version: dict[int, list[str]]
    commits: dict[int, float]
    checkpoints: tuple[int, ...]
    last_checkpoint: int
    bytes: int
    now: float

    @cached_property
    def newest(self) -> int:
        """The newest version that it has."""
        return max(self.commits)

    @cached_property
    def oldest(self) -> int:
        """The oldest version that it still gives: commits of older ones may be there for what they say alone."""
        begin = min(self.commits)
        return min((version for version in self.checkpoints if version >= begin - 1), default=begin) if begin else 0

    @property
    def since_checkpoint(self) -> int:
        """Commits that a reader reads behind the newest checkpoint."""
        return self.newest - self.last_checkpoint

    def version_at(self, when: float) -> int:
        """The version that the table had at that time, or the oldest that there is."""
        return max((version for version, at in self.commits.items() if at <= when), default=self.oldest)

    def checkpoint_below(self, version: int) -> int | None:
        """The newest checkpoint that is not above the version, nor above that which readers begin with."""
        top = min(version, self.last_checkpoint)
        return max(
            (checkpoint for checkpoint in self.checkpoints if checkpoint <= top and checkpoint in self.commits), default=None
        )


def list_log(path: str) -> LogFiles:
    """The log of a table, wherever the lake lies.

    Raises:
        LeftToSparkError: it has no commit.
        EndpointError: the lake's object store does not answer.
    """
    folder = open_folder(path)
    by_version: dict[int, list[str]] = {}
    commits, checkpoints, size = {}, [], 0
    for file in folder.facts(LOG):
        match = _OF_VERSION.fullmatch(file.name)
        if match is None:
            continue
        by_version.setdefault(int(match[1]), []).append(file.name)
        if COMMIT.fullmatch(file.name):
            commits[int(match[1])], size = file.at, size + file.size
        elif _CHECKPOINT.fullmatch(file.name):
            checkpoints.append(int(match[1]))
    if not commits:
        raise LeftToSparkError("the log has no commit here")
    checkpoint = last_checkpoint(folder)
    last = int(checkpoint["version"]) if checkpoint is not None else -1
    return LogFiles(by_version, commits, tuple(sorted(checkpoints)), last, size, folder.now())


WORK_SECONDS = 86_400.0
"""A file that no commit names may belong to a writer that is still at work: for so long."""
_INFO = '{"commitInfo":'
_DATA = (".parquet", ".bin")


@dataclass(frozen=True)
class Garbage:
    """Files by their path below the table's folder, and their bytes."""

    files: tuple[str, ...]
    bytes: int


def find_expired_log(log: LogFiles, keep_from: int, told_by: int | None) -> list[str]:
    """Names of the log's files that are not needed to read versions from `keep_from` on, nor what the commits from `told_by` on
    say of the table (None: they say nothing); oldest first.

    Our own metadata needs the commits that say it, and no file of that time.
    """
    begin = log.checkpoint_below(keep_from)
    if begin is None:
        return []
    first = begin if told_by is None else min(begin, told_by)
    return [name for version in sorted(log.by_version) if version < first for name in sorted(log.by_version[version])]


def remove_log(path: str, names: list[str]) -> None:
    """Remove these files of the log, in their order."""
    folder = open_folder(path)
    for name in names:
        folder.delete(f"{LOG}/{name}")


def find_garbage(path: str, keep_from: int, *, named: Iterable[int] = (), work_seconds: float = WORK_SECONDS) -> Garbage:
    """Data files that no version from `keep_from` on has, nor one of those that are named.

    Raises:
        LeftToSparkError: the log is not to be read here so far back, or names files elsewhere.
    """
    folder = open_folder(path)
    # Listed first: what is written meanwhile may be of a commit that is not among those that are read.
    until, files = folder.now() - work_seconds, folder.tree()
    in_use = set(_paths_in_use(folder, keep_from)).union(*(_paths_of_version(path, version) for version in named))
    data = [file for file in files if file.name.endswith(_DATA) and not is_hidden(file.name.rpartition("/")[2])]
    unused = [file for file in data if file.name not in in_use and file.at < until]
    return Garbage(tuple(sorted(file.name for file in unused)), sum(file.size for file in unused))


def remove_garbage(path: str, garbage: Garbage) -> None:
    """Remove these data files."""
    folder = open_folder(path)
    folder.map(folder.delete, garbage.files)


def _paths_of_version(path: str, version: int) -> Iterator[str]:
    for file in table_of(path).snapshot(version).files.values():
        yield from files_of(file)


def _paths_in_use(folder: LakeFolder, keep_from: int) -> Iterator[str]:
    yield from _paths_of_version(folder.path, keep_from)
    names = commit_names(folder, after=f"{keep_from:020}.json")
    for paths in folder.map(lambda name: list(_files_of_commit(folder, name)), names):
        yield from paths


def _files_of_commit(folder: LakeFolder, name: str) -> Iterator[str]:
    for line in folder.lines(f"{LOG}/{name}"):
        if line.startswith(_INFO):
            continue
        action: dict[str, Any] = json.loads(line)
        for kind in ("add", "remove", "cdc"):
            if kind in action:
                yield from files_of(action[kind])


def files_of(file: Mapping[str, Any]) -> Iterator[str]:
    """Paths below the table's folder: the file's, and that of its deletion vector."""
    path = unquote(file["path"])
    if ":" in path or path.startswith("/"):
        raise LeftToSparkError(f"the log names a file elsewhere: {path[:200]}")
    yield path
    vector = file.get("deletionVector")
    if vector and vector["storageType"] == "p":
        raise LeftToSparkError(f"the log names a vector elsewhere: {vector['pathOrInlineDv'][:200]}")
    if vector and vector["storageType"] == "u":
        yield file_of_vector(vector["pathOrInlineDv"])
