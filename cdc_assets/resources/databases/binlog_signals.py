"""The signal table of a MariaDB or MySQL source: how its connector is asked to read some rows again.

The connector writes its watermarks there as well, so its role needs INSERT. Where a role may not create tables it is said
what to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from spark.delta.identifiers import quote

_COLUMNS = "id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data longtext"


class BinlogSignals(BinlogDatabase):
    """A source's database, written to for its connector."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, in a database of its own.

        Raises:
            DatabaseError: the role may not; names the statements for somebody who may.
        """
        query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        with self.connection() as cursor:
            cursor.execute(query, list(table))
            if cursor.fetchone()[0]:
                return
            with self._explain_refusal(table):
                for statement in _create_statements(table):
                    cursor.execute(statement)

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal, once: the same id again changes nothing.

        Raises:
            DatabaseError: as `ensure_signal_table`.
        """
        with self.connection() as cursor, self._explain_refusal(table):
            cursor.execute(f"INSERT IGNORE INTO {quote(*table)} VALUES (%s, %s, %s)", [signal, kind, data])

    def plan_reading(self, table: TableId, condition: str) -> None:
        """Plan a reading of the rows that a condition (SQL) names; nothing is read.

        Raises:
            DatabaseError: the condition is no single condition on the table's columns, or the role may not read it.
        """
        with self.connection() as cursor:
            cursor.execute(f"EXPLAIN SELECT 1 FROM {quote(*table)} WHERE {condition}")

    @contextmanager
    def _explain_refusal(self, table: TableId) -> Iterator[Any]:
        import pymysql

        try:
            yield
        except pymysql.err.MySQLError as error:
            granted = f"GRANT SELECT, INSERT, DELETE ON {quote(*table)} TO '{self.user}'@'%'"
            raise DatabaseError(
                f"{self.NAME} at {self.place}: {error.args[-1]}; let somebody who may run, while the connector runs: "
                f"{'; '.join((*_create_statements(table), granted))}"
            ) from error


def _create_statements(table: TableId) -> tuple[str, ...]:
    return f"CREATE DATABASE IF NOT EXISTS {quote(table.schema)}", f"CREATE TABLE IF NOT EXISTS {quote(*table)} ({_COLUMNS})"
