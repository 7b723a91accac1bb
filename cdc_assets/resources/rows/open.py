"""The reader of a kind's rows, and its connection; nothing is connected yet."""

from __future__ import annotations

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.registry.mongodb import MongoDb
from cdc_assets.registry.mysql import MySql
from cdc_assets.registry.oracle import Oracle
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.resources.rows.mongodb import MongoDbReader
from cdc_assets.resources.rows.mysql import MySqlConnection
from cdc_assets.resources.rows.oracle import OracleConnection
from cdc_assets.resources.rows.paged import RowReader
from cdc_assets.resources.rows.sql import Connection, SqlReader
from cdc_assets.resources.rows.sqlserver import SqlServerConnection


def open_reader(database: DatabaseKind) -> RowReader:
    """By its kind.

    Raises:
        DatabaseError: there is none for it.
    """
    return MongoDbReader(database) if isinstance(database, MongoDb) else SqlReader(open_connection(database))


def open_connection(database: DatabaseKind) -> Connection:
    """Of a kind that is asked in SQL.

    Raises:
        DatabaseError: there is none for it.
    """
    if isinstance(database, MySql):
        return MySqlConnection(database)
    if isinstance(database, SqlServer):
        return SqlServerConnection(database)
    if isinstance(database, Oracle):
        return OracleConnection(database)
    raise DatabaseError(f"a database of kind {database.kind} is not asked through a driver of these")
