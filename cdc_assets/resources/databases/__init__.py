"""Source databases: catalogue, markers in their log, consistent counts."""

from __future__ import annotations

from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import Database
from cdc_assets.resources.databases.catalogue import SourceDatabase
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.postgresql import PostgresDatabase

__all__ = ["SourceDatabase", "open_database"]


def open_database(database: Database | MariaDb) -> MariaDbDatabase | PostgresDatabase:
    """By its kind; nothing is connected yet."""
    return MariaDbDatabase(database) if isinstance(database, MariaDb) else PostgresDatabase(database)
