"""What the folder of a Delta log holds: commits with their times, checkpoints, and what belongs to a version besides."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spark.errors import LeftToSparkError

_OF_VERSION = re.compile(r"\.{0,2}(\d{20})\.[\w.-]+")
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")


@dataclass(frozen=True)
class LogFiles:
    """A log's files: `by_version` are all that belong to a version, also checksums; `commits` by version, with their time
    (seconds since 1970); `checkpoints` ascending; `last_checkpoint` is the one that readers begin with, -1 for none."""

    by_version: dict[int, list[str]]
    commits: dict[int, float]
    checkpoints: tuple[int, ...]
    last_checkpoint: int
    bytes: int

    @cached_property
    def newest(self) -> int:
        """The newest version that it has."""
        return max(self.commits)

    @property
    def since_checkpoint(self) -> int:
        """Commits that a reader reads behind the newest checkpoint."""
        return self.newest - self.last_checkpoint

    def version_at(self, when: float) -> int:
        """The version that the table had at that time, or the oldest that there is."""
        older = [version for version, at in self.commits.items() if at <= when]
        return max(older, default=min(self.commits))

    def checkpoint_below(self, version: int) -> int | None:
        """The newest checkpoint that is not above the version, nor above that which readers begin with."""
        top = min(version, self.last_checkpoint)
        return max((each for each in self.checkpoints if each <= top and each in self.commits), default=None)


def list_log(path: str) -> LogFiles:
    """The log of a table on a local disk.

    Raises:
        LeftToSparkError: it has none, or a form that is not read here.
    """
    by_version: dict[int, list[str]] = {}
    commits, checkpoints, size = {}, [], 0
    try:
        with os.scandir(Path(path, "_delta_log")) as entries:
            for entry in entries:
                found = _OF_VERSION.fullmatch(entry.name)
                if found is None:
                    continue
                by_version.setdefault(int(found[1]), []).append(entry.name)
                if _COMMIT.fullmatch(entry.name):
                    facts = entry.stat()
                    commits[int(found[1])], size = facts.st_mtime, size + facts.st_size
                elif _CHECKPOINT.fullmatch(entry.name):
                    checkpoints.append(int(found[1]))
    except OSError as error:
        raise LeftToSparkError(f"the log is not to be read here: {error}") from error
    if not commits:
        raise LeftToSparkError("the log has no commit here")
    return LogFiles(by_version, commits, tuple(sorted(checkpoints)), _last_checkpoint(path), size)


def _last_checkpoint(path: str) -> int:
    try:
        told = json.loads(Path(path, "_delta_log", "_last_checkpoint").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return -1
    return int(told["version"])
