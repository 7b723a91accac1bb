"""Source databases: catalogue, markers in their log, consistent counts."""

from __future__ import annotations

from typing import Any

from cdc_assets.kinds import KINDS
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.resources.databases.catalogue import SourceDatabase

__all__ = ["SourceDatabase", "open_database"]


def open_database(database: DatabaseKind) -> Any:
    """A SourceDatabase, by its kind; nothing is connected yet."""
    part = KINDS[database.kind].database
    assert part is not None, f"kind {database.kind} is not asked: its columns are declared"
    return part.load()(database)
