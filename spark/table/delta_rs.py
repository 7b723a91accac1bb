"""What delta-rs does for us: tables read, and checkpoints of a table's log.

In gs:// delta-rs reads alone: it writes by Google's XML interface, which the embedded endpoint knows by half. There the newest
checkpoint and the commits since go to a folder of this machine, and what delta-rs makes of them is put beside them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from spark.errors import CommitLeftOutError
from spark.table.commit_metadata import carries
from spark.table.lake_location import delta_options, is_object, store_place
from spark.table.log_reader import LAST_CHECKPOINT, LOG, commit_names, last_checkpoint, newest_commits
from spark.table.table_folder import LakeFolder, open_folder

RowCounts = dict[str, int]
"""Rows of a merge by what became of them: `inserted`, `updated`, `deleted`."""


def open_delta(path: str, *, version: int | None = None) -> Any:
    """The Delta table at the path, wherever the lake lies."""
    from deltalake import DeltaTable

    return DeltaTable(path, version=version, storage_options=delta_options(path))


def is_delta(path: str) -> bool:
    """Whether there is a Delta table at the path."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(path, storage_options=delta_options(path)))


def find_version(path: str, operation_id: str) -> int:
    """The version that carries our operation id: a write that returned is believed only once it is in the log.

    Raises:
        CommitLeftOutError: none does.
    """
    version = _find_version(path, operation_id)
    if version is None:
        raise CommitLeftOutError(f"{path}: the write returned, but no commit carries operation {operation_id}; run it again")
    return version


def _find_version(path: str, operation_id: str) -> int | None:
    return next((c["version"] for c in newest_commits(path, 5) or () if carries(c["userMetadata"], operation_id)), None)


def make_checkpoint(table: Any, path: str) -> None:
    """The checkpoint of the version at which the table is opened. Two writers of one could spoil it: the table's lease is held.

    Raises:
        DeltaError: the table has a feature that delta-rs does not know.
    """
    if is_object(path) and store_place(path).kind == "gcs":
        _make_in_copy(open_folder(path), table.version())
    else:
        table.create_checkpoint()


def _make_in_copy(folder: LakeFolder, version: int) -> None:
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(prefix="cdc-log-") as copy:
        log = Path(copy, LOG)
        log.mkdir()

        def fetch(name: str) -> None:
            (log / name).write_bytes(folder.read(f"{LOG}/{name}"))

        folder.map(fetch, _names_up_to(folder, version))
        DeltaTable(copy, version=version).create_checkpoint()
        # The file first: readers begin with what the other one names.
        for name in (f"{version:020}.checkpoint.parquet", LAST_CHECKPOINT):
            folder.put(f"{LOG}/{name}", (log / name).read_bytes())


def _names_up_to(folder: LakeFolder, version: int) -> list[str]:
    """The files of the log that tell the version."""
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return [name for name in commit_names(folder) if int(name[:20]) <= version]
    begin = f"{int(checkpoint['version']):020}"
    since = [name for name in folder.names(LOG, after=begin) if name.startswith(f"{begin}.checkpoint")]
    commits = [name for name in commit_names(folder, after=f"{begin}.json") if int(name[:20]) <= version]
    return [LAST_CHECKPOINT, *since, *commits]
