"""What the folder of a Delta log holds: commits with their times, checkpoints, and what belongs to a version besides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from spark.delta.local_log import COMMIT, LOG, last_checkpoint
from spark.errors import LeftToSparkError
from spark.lake.folder import open_folder

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
        return min((each for each in self.checkpoints if each >= begin - 1), default=begin) if begin else 0

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
        return max((each for each in self.checkpoints if each <= top and each in self.commits), default=None)


def list_log(path: str) -> LogFiles:
    """The log of a table, wherever the lake lies.

    Raises:
        LeftToSparkError: it has no commit.
        LakeStoreError: the lake's object store does not answer.
    """
    folder = open_folder(path)
    by_version: dict[int, list[str]] = {}
    commits, checkpoints, size = {}, [], 0
    for file in folder.facts(LOG):
        found = _OF_VERSION.fullmatch(file.name)
        if found is None:
            continue
        by_version.setdefault(int(found[1]), []).append(file.name)
        if COMMIT.fullmatch(file.name):
            commits[int(found[1])], size = file.at, size + file.size
        elif _CHECKPOINT.fullmatch(file.name):
            checkpoints.append(int(found[1]))
    if not commits:
        raise LeftToSparkError("the log has no commit here")
    told = last_checkpoint(folder)
    last = int(told["version"]) if told is not None else -1
    return LogFiles(by_version, commits, tuple(sorted(checkpoints)), last, size, folder.now())
