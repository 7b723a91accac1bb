"""The reader of a kind's rows, and its connection; nothing is connected yet."""

from __future__ import annotations

from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import KINDS
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.resources.rows.paged import RowReader
from cdc_assets.resources.rows.sql import Connection, SqlReader


def open_reader(database: DatabaseKind) -> RowReader:
    """By its kind.

    Raises:
        DatabaseError: there is none for it.
    """
    part = KINDS[database.kind].pages
    if part is None:
        return SqlReader(open_connection(database))
    reader: RowReader = part.load()(database)
    return reader


def open_connection(database: DatabaseKind) -> Connection:
    """Of a kind that is asked in SQL.

    Raises:
        DatabaseError: there is none for it.
    """
    part = KINDS[database.kind].connection
    if part is None:
        raise DatabaseError(f"a database of kind {database.kind} is not asked through a driver of these")
    connection: Connection = part.load()(database)
    return connection
