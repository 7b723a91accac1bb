"""What no version that is kept needs: commits below a checkpoint, and data files that no commit from there on names.

Our own metadata needs the commits that say it, and no file of that time.

Files of the log go in the order of their versions, so that a kill leaves a log that only begins later. A data file goes where
neither the oldest kept version has it, nor a commit after that one names it, and it is older than any writer's work.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spark.delta.deletion_vectors import file_of_vector
from spark.delta.live_files import read_live_table
from spark.errors import LeftToSparkError
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
    for name in names:
        Path(path, "_delta_log", name).unlink(missing_ok=True)


def find_garbage(path: str, keep_from: int, *, work_seconds: float = WORK_SECONDS) -> Garbage:
    """Data files that no version from `keep_from` on has.

    Raises:
        LeftToSparkError: the log is not to be read here so far back, or names files elsewhere.
    """
    in_use = set(_paths_in_use(path, keep_from))
    until, found, size = time.time() - work_seconds, list[str](), 0
    for place, facts in _data_files(Path(path)):
        if place not in in_use and facts.st_mtime < until:
            found.append(place)
            size += facts.st_size
    return Garbage(tuple(sorted(found)), size)


def remove_garbage(path: str, garbage: Garbage) -> None:
    """Remove these data files."""
    for place in garbage.files:
        Path(path, place).unlink(missing_ok=True)


def _data_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Files of data and vectors; as Delta's own VACUUM, nothing whose name begins with `_` or a dot."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in files:
            if name.endswith(_DATA) and not name.startswith(("_", ".")):
                yield str(Path(place, name).relative_to(folder)), Path(place, name).stat()


def _paths_in_use(path: str, keep_from: int) -> Iterator[str]:
    live = read_live_table(path, keep_from)
    for file in live.files.values():
        yield from _files_of(file)
    version = keep_from + 1
    while (commit := Path(path, "_delta_log", f"{version:020}.json")).exists():
        for line in commit.read_text(encoding="utf-8").splitlines():
            if line.startswith(_INFO):
                continue
            action: dict[str, Any] = json.loads(line)
            for name in ("add", "remove", "cdc"):
                if name in action:
                    yield from _files_of(action[name])
        version += 1


def _files_of(file: Mapping[str, Any]) -> Iterator[str]:
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
