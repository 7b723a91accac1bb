"""A place in a MariaDB's binlog. File numbers are compared as numbers: `binlog.999999` is followed by `binlog.1000000`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class BinlogPosition:
    """Everything before `position` (bytes) of the file with this number."""

    number: int
    position: int
    file: str

    @classmethod
    def of(cls, file: str, position: int | str) -> BinlogPosition:
        """From `binlog.000042` and its bytes."""
        return cls(int(file.rpartition(".")[2]), int(position), file)

    @property
    def text(self) -> str:
        """`binlog.000042:990`."""
        return f"{self.file}:{self.position}"

    def sees_event(self, source: Mapping[str, Any]) -> bool:
        """Does the change with this source block lie before it? A transaction's changes lie all on one side."""
        return BinlogPosition.of(source["file"], source["pos"]) < self
