"""The reader of a kind's rows; nothing is connected yet."""

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
from cdc_assets.resources.rows.sql import SqlReader
from cdc_assets.resources.rows.sqlserver import SqlServerConnection


def open_reader(database: DatabaseKind) -> RowReader:
    """By its kind.

    Raises:
        DatabaseError: there is none for it.
    """
    if isinstance(database, MySql):
        return SqlReader(MySqlConnection(database))
    if isinstance(database, SqlServer):
        return SqlReader(SqlServerConnection(database))
    if isinstance(database, Oracle):
        return SqlReader(OracleConnection(database))
    if isinstance(database, MongoDb):
        return MongoDbReader(database)
    raise DatabaseError(f"rows of kind {database.kind} are not read by pages")
