"""Which objects at a source's database are there for us, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cdc_assets.registry.models import BaseSource
from cdc_assets.removal.binlog import BinlogTraces
from cdc_assets.removal.postgresql import PostgresTraces
from cdc_assets.removal.trace import Traces


def _mariadb(source: Any) -> BinlogTraces:
    from cdc_assets.resources.databases.mariadb_capture import MariaDbCapture

    return BinlogTraces(source, MariaDbCapture(source.database))


def _mysql(source: Any) -> BinlogTraces:
    from cdc_assets.resources.databases.mysql_capture import MySqlCapture

    return BinlogTraces(source, MySqlCapture(source.database))


_KINDS: dict[str, Callable[[Any], Traces]] = {
    "postgresql": lambda source: PostgresTraces(source, source.database),
    "mariadb": _mariadb,
    "mysql": _mysql,
}


def traces_of(source: BaseSource) -> Traces | None:
    """Of the source's database; None where nothing of ours is ever written: other kinds, and sources of topics."""
    make = _KINDS.get(database_kind(source))
    return None if make is None else make(source)


def database_kind(source: BaseSource) -> str:
    """The kind of its database; `topics` for a source of topics."""
    database = getattr(source, "database", None)
    return str(database.kind) if database is not None else "topics"
