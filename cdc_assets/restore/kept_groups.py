"""What a restore has written and no commit names yet, noted in the table's own folder: a restore that was killed finds it there.

Delta's readers and its VACUUM leave folders alone whose name begins with an underscore.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cached_property
from typing import Any

from cdc_assets.restore.row_groups import Reached
from spark.delta.topic_commits import CommittedTopic
from spark.lake.folder import LakeFolder, open_folder

_NOTES = "_restore"
File = dict[str, Any]
"""The `add` of a Parquet file; None where a group has no rows."""


class KeptGroups:
    """The notes of one bronze table."""

    def __init__(self, path: str) -> None:
        self.folder: LakeFolder = open_folder(path)

    def find(self, identity: str) -> tuple[File | None, Reached] | None:
        """What was written of a group; None: nothing, or it is gone."""
        note = self._read(f"{identity}.json")
        if note is None:
            return None
        file: File | None = note["file"]
        if file is not None and self._sizes.get(file["path"]) != file["size"]:
            return None
        return file, Reached.from_dict(note["reached"])

    def keep(self, identity: str, table: str, file: File | None, reached: Reached) -> None:
        """Note what was written of a group."""
        self._write(f"{identity}.json", {"table": table, "file": file, "reached": reached.to_dict()})

    def note_state(self, table: str, point: str, state: CommittedTopic) -> None:
        """What the commit that follows makes of a table."""
        self._write(f"of-{table}.json", {"table": table, "point": point, "state": state.to_dict()})

    def state_of(self, table: str, point: str) -> CommittedTopic | None:
        """The same of a table that was restored up to this point; None: it was not."""
        note = self._read(f"of-{table}.json")
        return CommittedTopic.from_dict(note["state"]) if note is not None and note["point"] == point else None

    def forget(self, tables: Collection[str], named: Collection[str]) -> None:
        """Notes of groups of these tables go, and files of theirs that the commit has not named."""
        for name in self.folder.names(_NOTES):
            note = None if name.startswith("of-") else self._read(name)
            if note is None or note["table"] not in tables:
                continue
            if note["file"] is not None and note["file"]["path"] not in named:
                self.folder.delete(note["file"]["path"])
            self.folder.delete(f"{_NOTES}/{name}")

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {file.name: file.size for file in self.folder.tree()}

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.folder.read(f"{_NOTES}/{name}"))
        except (FileNotFoundError, ValueError):
            return None
        return found

    def _write(self, name: str, note: dict[str, Any]) -> None:
        """Whole or not at all, also where the process ends meanwhile."""
        place = f"{_NOTES}/{name}"
        self.folder.make()
        self.folder.delete(place)
        self.folder.put_if_absent(place, json.dumps(note).encode())
