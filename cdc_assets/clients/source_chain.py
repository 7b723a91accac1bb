"""A source on a platform: what nearly every capability is asked for, and where its tables lie.

`Chain(platform, source)` stands where the two were handed on side by side. Its paths are those of `cdc_assets.registry.names`
below the platform's lake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

SourceT = TypeVar("SourceT", bound=BaseSource, covariant=True)
Say = Callable[[str], None]
"""Tells somebody a line; what it tells, and to whom, is the caller's."""


@dataclass(frozen=True)
class Chain(Generic[SourceT]):
    """A source as it is declared, and the platform on which its chain runs."""

    platform: Platform
    source: SourceT

    @property
    def bronze_path(self) -> str:
        """The source's change log."""
        return names.bronze_path(self.platform.lake, self.source)

    def silver_path(self, table: Table) -> str:
        """A table's current state."""
        return names.silver_path(self.platform.lake, self.source, table)

    def history_path(self, table: Table) -> str:
        """Every version of a table's rows."""
        return names.history_path(self.platform.lake, self.source, table)

    def replay_path(self, table: Table) -> str:
        """Where a table's shadows lie while it is made again."""
        return names.replay_path(self.platform.lake, self.source, table)
