"""The files of a Delta table at its newest version, with their deletion vectors, from the table's log.

delta-rs (1.6.6) tells files without their deletion vectors' places, and a commit that replaces a vector has to name it.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark.errors import LeftToSparkError
from spark.table.data_files import AddFile
from spark.table.log_reader import LOG, commit_file, last_checkpoint, names_after
from spark.table.table_folder import LakeFolder, open_folder

_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
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
        present = self.files.get(gone["path"])
        if present is not None and vector_key(present) == vector_key(gone):
            del self.files[gone["path"]]


def vector_key(file: AddFile) -> tuple[str, int] | None:
    """What tells one deletion vector of a file from another; None: it has none."""
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset") or 0) if vector else None


def read_live_table(path: str, version: int | None = None) -> LiveTable:
    """The table as its log has it now, or had it at a version.

    Raises:
        LeftToSparkError: the log has a form that is not read here, or does not reach back so far.
    """
    folder, table = open_folder(path), LiveTable()
    if version is None:
        begin = _newest_checkpoint(folder)
    else:
        checkpoints = [int(name[:20]) for name in folder.names(LOG) if _CHECKPOINT.fullmatch(name)]
        begin = max((number for number in checkpoints if number <= version), default=None)
    if begin is not None:
        try:
            for action in read_checkpoint(folder, begin):
                table.apply(action)
        except OSError as error:
            raise LeftToSparkError(f"the table's checkpoint is not to be read here: {error}") from error
        table.version = begin
    catch_up(table, path, version)
    if not table.protocol or not table.metadata or (version is not None and table.version != version):
        raise LeftToSparkError("the table's log does not begin here")
    return table


def catch_up(table: LiveTable, path: str, version: int | None = None) -> None:
    """Apply the commits that have come since, up to and with `version` where one is given."""
    folder = open_folder(path)
    names = names_after(folder, table.version)
    names = [name for name in names if version is None or int(name[:20]) <= version]
    for name, commit in zip(names, folder.map(lambda file_name: list(folder.lines(f"{LOG}/{file_name}")), names), strict=True):
        if f"{LOG}/{name}" != commit_file(table.version + 1):
            break
        for line in commit:
            table.apply(json.loads(line))
        table.version += 1


def _newest_checkpoint(folder: LakeFolder) -> int | None:
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return None
    if checkpoint.get("parts") or checkpoint.get("v2Checkpoint"):
        raise LeftToSparkError("the table's checkpoint is in parts")
    return int(checkpoint["version"])


def read_checkpoint(folder: LakeFolder, version: int, kinds: Sequence[str] = _OF_CHECKPOINT) -> Iterator[dict[str, Any]]:
    """The actions of these kinds in a version's checkpoint. Raises OSError: it is not one file, or not to be read here."""
    import pyarrow.parquet as pq

    name = f"{LOG}/{version:020}.checkpoint.parquet"
    checkpoint = pq.ParquetFile(name, filesystem=folder.filesystem)
    rows = checkpoint.read(columns=[kind for kind in kinds if kind in checkpoint.schema_arrow.names])
    for name in rows.column_names:
        for value in rows[name].drop_null().to_pylist():
            yield {name: {key: _as_json(key, field) for key, field in value.items() if field is not None}}


def _as_json(key: str, value: Any) -> Any:
    """Parquet has a map as pairs, and a struct with all of its fields."""
    if key in _MAPS:
        return dict(value)
    if isinstance(value, dict):
        return {name: _as_json(name, inner) for name, inner in value.items() if inner is not None}
    return value
