"""Figures of a table: what makes it slow, and what it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spark.delta.data_files import AddFile
from spark.delta.live_files import LiveTable
from spark.maintenance.log_files import LogFiles

SMALL_BYTES = 16 << 20
"""A file below that is small: readers pay for each file."""


@dataclass(frozen=True)
class TableFigures:
    """Of one version: `dead_rows` are rows that deletion vectors take away; `commits` are those that the log still has."""

    version: int
    files: int
    small_files: int
    bytes: int
    rows: int
    dead_rows: int
    commits: int
    since_checkpoint: int
    log_bytes: int

    def to_dict(self) -> dict[str, int]:
        """Each figure by its name."""
        return asdict(self)


def figures_of(live: LiveTable, log: LogFiles) -> TableFigures:
    """Of a table as it is now, from its log alone."""
    files = list(live.files.values())
    rows = sum(rows_of_file(file) for file in files)
    dead = sum(rows_gone(file) for file in files)
    return TableFigures(
        version=live.version,
        files=len(files),
        small_files=sum(is_small(file) for file in files),
        bytes=sum(int(file["size"]) for file in files),
        rows=rows - dead,
        dead_rows=dead,
        commits=len(log.commits),
        since_checkpoint=log.since_checkpoint,
        log_bytes=log.bytes,
    )


def is_small(file: AddFile) -> bool:
    """Whether the file should be made one with others."""
    return int(file["size"]) < SMALL_BYTES


def rows_of_file(file: AddFile) -> int:
    """Rows that the file holds, gone ones too; 0 where nobody has told."""
    told = file.get("stats")
    found: Mapping[str, Any] = json.loads(told) if told else {}
    return int(found.get("numRecords") or 0)


def rows_gone(file: AddFile) -> int:
    """Rows of the file that its deletion vector takes away."""
    vector = file.get("deletionVector")
    return int(vector["cardinality"]) if vector else 0
