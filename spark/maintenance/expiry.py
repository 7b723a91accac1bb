"""What no version that is kept needs: commits below a checkpoint, and data files that no commit from there on names.

Our own metadata needs the commits that say it, and no file of that time.

Files of the log go in the order of their versions, so that a kill leaves a log that only begins later. A data file goes where
neither the oldest kept version has it, nor a commit after that one names it, and it is older than any writer's work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from spark.delta.deletion_vectors import file_of_vector
from spark.delta.live_files import read_live_table
from spark.delta.local_log import LOG, commit_names
from spark.errors import LeftToSparkError
from spark.lake.folder import LakeFolder, is_hidden, open_folder
from spark.maintenance.log_files import LogFiles

WORK_SECONDS = 86_400.0
"""A file that no commit names may belong to a writer that is still at work: for so long."""
_INFO = '{"commitInfo":'
_DATA = (".parquet", ".bin")


@dataclass(frozen=True)
class Garbage:
    """Files by their path below the table's folder, and their bytes."""

    files: tuple[str, ...]
    bytes: int


def find_expired(log: LogFiles, keep_from: int, told_by: int | None) -> list[str]:
    """Names of the log's files that are not needed to read versions from `keep_from` on, nor what the commits from `told_by` on
    say of the table (None: they say nothing); oldest first."""
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
    found = [file for file in files if _is_data(file.name) and file.name not in in_use and file.at < until]
    return Garbage(tuple(sorted(file.name for file in found)), sum(file.size for file in found))


def remove_garbage(path: str, garbage: Garbage) -> None:
    """Remove these data files."""
    folder = open_folder(path)
    folder.map(folder.delete, garbage.files)


def _is_data(place: str) -> bool:
    return place.endswith(_DATA) and not is_hidden(place.rpartition("/")[2])


def _paths_of_version(path: str, version: int) -> Iterator[str]:
    for file in read_live_table(path, version).files.values():
        yield from files_of(file)


def _paths_in_use(folder: LakeFolder, keep_from: int) -> Iterator[str]:
    yield from _paths_of_version(folder.path, keep_from)
    names = commit_names(folder, after=f"{keep_from:020}.json")
    for found in folder.map(lambda name: list(_files_of_commit(folder, name)), names):
        yield from found


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
    place = unquote(file["path"])
    if ":" in place or place.startswith("/"):
        raise LeftToSparkError(f"the log names a file elsewhere: {place[:200]}")
    yield place
    vector = file.get("deletionVector")
    if vector and vector["storageType"] == "p":
        raise LeftToSparkError(f"the log names a vector elsewhere: {vector['pathOrInlineDv'][:200]}")
    if vector and vector["storageType"] == "u":
        yield file_of_vector(vector["pathOrInlineDv"])
