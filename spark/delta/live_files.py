"""The files of a Delta table at its newest version, with their deletion vectors, from the table's log.

delta-rs (1.6.6) tells files without their deletion vectors' places, and a commit that replaces a vector has to name it.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spark.delta.data_files import AddFile
from spark.delta.local_log import LOG, commit_names, last_checkpoint
from spark.errors import LeftToSparkError
from spark.lake.folder import LakeFolder, open_folder

_OF_CHECKPOINT = ("add", "metaData", "protocol")
_OF_ADD = frozenset({"path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector"})
_MAPS = frozenset({"partitionValues", "configuration", "options", "tags"})


@dataclass
class LiveTable:
    """A table's newest state: `files` by path, each as the `add` that named it; its `protocol` and `metaData`."""

    version: int = -1
    files: dict[str, AddFile] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def apply(self, action: dict[str, Any]) -> None:
        """One action of a commit: a file is known by its path, since only one vector of it is valid at a time."""
        if "add" in action:
            self.files[action["add"]["path"]] = {name: value for name, value in action["add"].items() if name in _OF_ADD}
        elif "remove" in action:
            self._remove(action["remove"])
        elif "metaData" in action:
            self.metadata = action["metaData"]
        elif "protocol" in action:
            self.protocol = action["protocol"]

    def _remove(self, gone: dict[str, Any]) -> None:
        """A commit that gives a file another vector adds it and removes it as it was, in any order."""
        held = self.files.get(gone["path"])
        if held is not None and vector_key(held) == vector_key(gone):
            del self.files[gone["path"]]


def vector_key(file: AddFile) -> tuple[str, int] | None:
    """What tells one deletion vector of a file from another; None: it has none."""
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset") or 0) if vector else None


def read_live_table(path: str) -> LiveTable:
    """The table as its log has it now.

    Raises:
        LeftToSparkError: the log has a form that is not read here.
    """
    folder, table = open_folder(path), LiveTable()
    told = last_checkpoint(folder)
    if told is not None:
        if told.get("parts") or told.get("v2Checkpoint"):
            raise LeftToSparkError("the table's checkpoint is in parts")
        for action in _of_checkpoint(folder, f"{LOG}/{told['version']:020}.checkpoint.parquet"):
            table.apply(action)
        table.version = told["version"]
    names = commit_names(folder, after=f"{table.version:020}.json" if told is not None else "")
    for name, commit in zip(names, folder.map(lambda each: list(folder.lines(f"{LOG}/{each}")), names), strict=True):
        if name != f"{table.version + 1:020}.json":
            break
        for line in commit:
            table.apply(json.loads(line))
        table.version += 1
    if not table.protocol or not table.metadata:
        raise LeftToSparkError("the table's log does not begin here")
    return table


def _of_checkpoint(folder: LakeFolder, name: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    try:
        found = pq.ParquetFile(name, filesystem=folder.filesystem)
        rows = found.read(columns=[name for name in _OF_CHECKPOINT if name in found.schema_arrow.names])
    except OSError as error:
        raise LeftToSparkError(f"the table's checkpoint is not to be read here: {error}") from error
    for name in rows.column_names:
        for value in rows[name].drop_null().to_pylist():
            yield {name: {key: _as_json(key, each) for key, each in value.items() if each is not None}}


def _as_json(key: str, value: Any) -> Any:
    """Parquet has a map as pairs, and a struct with all of its fields."""
    if key in _MAPS:
        return dict(value)
    if isinstance(value, dict):
        return {name: _as_json(name, each) for name, each in value.items() if each is not None}
    return value
