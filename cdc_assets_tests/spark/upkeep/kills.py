"""A process that dies at one of its changes to the disk: nothing that it does afterwards counts, not even clearing up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable


class Killed(BaseException):
    """The process is dead."""


class Mortal:
    """Counts changes to the disk from `allow` on, and dies at the one after the last that is allowed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for owner, name in ((os, "link"), (Path, "unlink"), (Path, "write_bytes"), (pq, "write_table")):
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))
        monkeypatch.setattr(DeltaTable, "create_checkpoint", self.counted(DeltaTable.create_checkpoint))

    def counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return change(*args, **kwargs)

        return run

    def allow(self, changes: int, work: Callable[[], Any]) -> bool:
        """Do the work with so many changes; whether it came to its end."""
        self.left = changes
        try:
            work()
        except Killed:
            return False
        finally:
            self.left = None
        return True
