"""A place in a MariaDB's binlog. File numbers are compared as numbers: `binlog.999999` is followed by `binlog.1000000`."""

from __future__ import annotations

from dataclasses import dataclass


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
        """File and position as people write them: `binlog.000042:990`."""
        return f"{self.file}:{self.position}"

    @property
    def in_positions(self) -> str:
        """As the lake's positions have it, less their epoch: what lies before it sorts below (spark.positions.mysql)."""
        return f"{self.number:010d}.{self.position:016x}"
