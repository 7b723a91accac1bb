"""The oracle: a table's rows as its database has them, and silver's as delta-rs (not Spark) reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cdc_assets_tests.support.servers.binlog_server import BinlogServer

Rows = Counter[tuple[Any, ...]]


def source_rows(connection: Any, table: str, where: str = "true") -> tuple[list[str], Rows]:
    """Column names and every row of which the condition holds, with how often it occurs."""
    from psycopg import sql

    cursor = connection.execute(sql.SQL("SELECT * FROM {} WHERE ").format(sql.Identifier(table)) + sql.SQL(where))
    columns = [column.name for column in cursor.description]
    return columns, Counter(_hashable(row) for row in cursor)


def binlog_rows(server: BinlogServer, table: str) -> tuple[list[str], Rows]:
    """The same of a MariaDB or MySQL; an unsigned bigint is a decimal in the lake, a boolean a tinyint."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        return [column[0] for column in cursor.description], Counter(_hashable(row) for row in cursor.fetchall())


def silver_rows(path: Path, columns: list[str], *, version: int | None = None) -> Rows:
    """Every row of the silver table, or of a version of it, in these columns."""
    from deltalake import DeltaTable

    table = DeltaTable(str(path), version=version).to_pyarrow_table(columns=columns)
    return Counter(_hashable(tuple(row[name] for name in columns)) for row in table.to_pylist())


def current_versions(path: Path, columns: list[str], *, version: int | None = None) -> Rows:
    """The same of a history's current versions."""
    from deltalake import DeltaTable

    table = DeltaTable(str(path), version=version).to_pyarrow_table(columns=[*columns, "_is_current"])
    return Counter(_hashable(tuple(row[name] for name in columns)) for row in table.to_pylist() if row["_is_current"])


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)
