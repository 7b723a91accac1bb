"""Checkpoints of a table's log, which delta-rs makes: where the log is, or in a copy of it.

In gs:// delta-rs reads alone: it writes by Google's XML interface, which the embedded endpoint knows by half. There the newest
checkpoint and the commits since go to a folder of this machine, and what delta-rs makes of them is put beside them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from spark.delta.local_log import LAST_CHECKPOINT, LOG, commit_names, last_checkpoint
from spark.lake.folder import LakeFolder, open_folder
from spark.lake.place import is_object, store_place

_EVERY = 100


def checkpoint(table: Any, path: str, version: int) -> None:
    """After a commit of ours that delta-rs has not made: its checkpoint, where one is due by the table's property."""
    every = table.metadata().configuration.get("delta.checkpointInterval") or _EVERY
    if version % int(every) == 0:
        table.update_incremental()
        make_checkpoint(table, path)


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
    told = last_checkpoint(folder)
    if told is None:
        return [name for name in commit_names(folder) if int(name[:20]) <= version]
    begin = f"{int(told['version']):020}"
    since = [name for name in folder.names(LOG, after=begin) if name.startswith(f"{begin}.checkpoint")]
    commits = [name for name in commit_names(folder, after=f"{begin}.json") if int(name[:20]) <= version]
    return [LAST_CHECKPOINT, *since, *commits]
