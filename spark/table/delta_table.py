"""A Delta table whose log this process reaches: its columns and properties as they are now, and a commit of ours.

delta-rs opens a table in 5 to 80 ms, by the commits since its last checkpoint, and Spark's `SHOW TBLPROPERTIES` takes 50 to 120
ms; every append and every fold asks. So what was read once is kept with the table, and only commits after it are looked at: one
that changes columns or properties has an action `metaData`
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-metadata).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from spark.table.commit_writer import put_commit
from spark.table.delta_rs import make_checkpoint, open_delta
from spark.table.log_reader import LOG, commit_file, last_checkpoint, names_after
from spark.table.snapshot import read_checkpoint
from spark.table.table_folder import LakeFolder, open_folder

_CHANGE = b'{"metaData":'
_EVERY = 100
"""Commits between two checkpoints of a table whose property `delta.checkpointInterval` says nothing."""


class _Head(NamedTuple):
    """The table at a version. `mark` tells its commit from one of another table, which took this one's place."""

    version: int
    mark: str
    metadata: Mapping[str, Any]


class DeltaTable:
    """The table at a path; `table_of` gives the one of this process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._head: _Head | None = None

    def metadata(self) -> Mapping[str, Any]:
        """The newest `metaData` of the log: `id`, `schemaString`, `configuration`, as the protocol has them.

        Raises:
            OSError: the log is not here, does not begin here, or was cleaned up meanwhile.
        """
        folder, head = open_folder(self.path), self._head
        if head is None or not _is_same(folder, head):
            head = _at_checkpoint(folder)
        for name in names_after(folder, head.version):
            content = folder.read(f"{LOG}/{name}")
            changes = [line for line in content.splitlines() if line.startswith(_CHANGE)]
            metadata = json.loads(changes[-1])["metaData"] if changes else head.metadata
            head = _Head(int(name[:20]), _mark(content), metadata)
        if not head.metadata:
            raise FileNotFoundError(f"{self.path}: no log of a table begins here")
        self._head = head
        return head.metadata

    def properties(self) -> Mapping[str, str]:
        """The table's properties by name; raises as `metadata`."""
        properties: Mapping[str, str] = self.metadata().get("configuration") or {}
        return properties

    def columns(self) -> tuple[str, ...]:
        """The names of its columns; raises as `metadata`."""
        return tuple(field["name"] for field in json.loads(self.metadata()["schemaString"])["fields"])

    def commit(self, base: int, actions: Sequence[dict[str, Any]]) -> int:
        """Put the actions as the version behind `base`, and make its checkpoint where the table's property wants one.

        Returns:
            The version.

        Raises:
            LeftToSparkError: somebody else has committed it meanwhile.
            CommitUncertainError: the store does not say.
        """
        version = base + 1
        put_commit(self.path, version, actions)
        if version % int(self.properties().get("delta.checkpointInterval") or _EVERY) == 0:
            make_checkpoint(open_delta(self.path), self.path)
        return version


@cache
def table_of(path: str) -> DeltaTable:
    """The table at a path; nothing is looked at. Each process has one, which keeps what it has read."""
    return DeltaTable(path)


def _at_checkpoint(folder: LakeFolder) -> _Head:
    """The table at its newest checkpoint, before all commits where it has none."""
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return _Head(-1, "", {})
    version = int(checkpoint["version"])
    [action] = read_checkpoint(folder, version, ("metaData",))
    return _Head(version, _mark_of(folder, version), action["metaData"])


def _is_same(folder: LakeFolder, head: _Head) -> bool:
    return head.mark != "" and head.mark == _mark_of(folder, head.version)


def _mark_of(folder: LakeFolder, version: int) -> str:
    """Empty where the commit is gone: a checkpoint may outlive its own."""
    try:
        return _mark(folder.read(commit_file(version)))
    except FileNotFoundError:
        return ""


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
