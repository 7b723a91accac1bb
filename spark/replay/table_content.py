"""What a table holds, replaced by one commit: its files, its columns and properties. Nobody reads anything between.

    remove every file of now ─┐
    metaData, protocol        ├▶ one JSON file of the log
    add every file of then   ─┘

Path and id of the table stay, and its older versions too: time travel and an undo read them. Files of another folder are moved
into the table's before; killed in between, no commit names them, and maintenance removes them.
"""

from __future__ import annotations

import json
from typing import Any

from spark.delta.data_files import remove_action
from spark.delta.live_files import LiveTable, read_live_table, vector_key
from spark.delta.local_log import newest_commits
from spark.delta.put_commit import commit_info, put_commit
from spark.lake.folder import LakeFolder, open_folder
from spark.maintenance.expiry import files_of
from spark.replay.protocols import join_protocols
from spark.schema.column_ledger import PROPERTY, TRACKED

_OF_COLUMNS = frozenset({"delta.dataSkippingStatsColumns", PROPERTY, TRACKED})
_MAPPING = "delta.columnMapping."


def move_files(source: str, target: str, content: LiveTable) -> None:
    """The files of a table's content from its folder into another one of the same store."""
    above, below = _common_folder(source, target)
    folder = open_folder(above)
    names = sorted({name for file in content.files.values() for name in files_of(file)})
    folder.map(lambda name: _move(folder, f"{below[0]}/{name}", f"{below[1]}/{name}"), names)


def _move(folder: LakeFolder, source: str, target: str) -> None:
    """A file that is there already was moved by an attempt before this one."""
    from pyarrow.fs import FileType

    if folder.filesystem.get_file_info(target).type == FileType.NotFound:
        folder.filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        folder.filesystem.move(source, target)


def _common_folder(one: str, other: str) -> tuple[str, tuple[str, str]]:
    """The deepest folder that holds both, and their places below it."""
    parts = [one.split("/"), other.split("/")]
    depth = next(i for i, (a, b) in enumerate(zip(*parts, strict=False)) if a != b)
    return "/".join(parts[0][:depth]), ("/".join(parts[0][depth:]), "/".join(parts[1][depth:]))


def put_content(path: str, content: LiveTable, user_metadata: str) -> int:
    """One commit after which the table holds just this; its files are in the table's folder. The version of the commit.

    Raises:
        LeftToSparkError: somebody else has committed meanwhile; nothing has changed.
    """
    now = read_live_table(path) if newest_commits(path, 1) else LiveTable()
    put_commit(path, now.version + 1, actions(now, content, user_metadata))
    return now.version + 1


def actions(now: LiveTable, content: LiveTable, user_metadata: str) -> list[dict[str, Any]]:
    """The actions that lead from `now` to the content."""
    protocol, metadata = join_protocols(now.protocol, content.protocol), _metadata(now, content)
    same = {path for path, file in content.files.items() if path in now.files and vector_key(now.files[path]) == vector_key(file)}
    gone = [file for path, file in now.files.items() if path not in same]
    come = [file for path, file in content.files.items() if path not in same]
    rows = sum(json.loads(file["stats"])["numRecords"] for file in come if file.get("stats"))
    metrics = {"numOutputRows": rows, "numAddedFiles": len(come), "numRemovedFiles": len(gone)}
    return [
        commit_info("REPLAY", user_metadata, metrics),
        *([{"protocol": protocol}] if protocol != now.protocol else []),
        *([{"metaData": metadata}] if metadata != now.metadata else []),
        *(remove_action(file) for file in gone),
        *({"add": {**file, "dataChange": True}} for file in come),
    ]


def _metadata(now: LiveTable, content: LiveTable) -> dict[str, Any]:
    """The content's columns, under the id that the table has; its properties too, but for those that are of its columns."""
    if not now.metadata:
        return content.metadata
    kept = {k: v for k, v in (now.metadata.get("configuration") or {}).items() if not _is_of_columns(k)}
    configuration = {**(content.metadata.get("configuration") or {}), **kept}
    return {**content.metadata, "id": now.metadata["id"], "configuration": configuration}


def _is_of_columns(name: str) -> bool:
    return name in _OF_COLUMNS or name.startswith(_MAPPING)
