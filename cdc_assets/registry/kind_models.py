"""The model of `database:` of each kind of database, a row each."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets.registry.databases import Database, DatabaseKind, MariaDb, MongoDb, MySql, Oracle, SqlServer
from cdc_assets.registry.kinds import row_of

MODELS: Mapping[str, type[DatabaseKind]] = {
    "postgresql": Database,
    "mariadb": MariaDb,
    "mysql": MySql,
    "sqlserver": SqlServer,
    "oracle": Oracle,
    "mongodb": MongoDb,
}


def model_of(kind: str) -> type[DatabaseKind]:
    """What a user writes below `database:` for a kind that has such a block. Raises LookupError: there is no row for the kind."""
    return row_of(MODELS, kind, __name__)
