"""A MySQL source as its connector sees it. Its rows' columns are declared (registry.unasked_source); its catalogue is asked here.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` does not tell the place of the binlog that it sees, as MariaDB's does. So the place
is read while nobody can commit: `FLUSH TABLES WITH READ LOCK`, the transaction's begin, the place, `UNLOCK TABLES`, as Debezium
and `mysqldump --source-data` do it. Whoever writes waits meanwhile; where a long statement holds the lock up, it is given up
after two seconds, since writers queue behind it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.binlog_capture import BinlogCapture
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.mysql import MySqlConnection
from spark.delta.identifiers import quote

_LOCKED_AT_MOST_SECONDS = 2
_TRIES, _PAUSE_SECONDS = 10, 3.0
_LOCK_WAIT_TIMEOUT, _SYNTAX = 1205, 1064
# What a signal and its data need: an id of ours has some 70 characters; what is longer would be cut.
_LEAST_LENGTHS = {"id": 100, "type": 32, "data": 65535}
_LENGTHS = """
SELECT column_name, character_maximum_length FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
"""


class MySqlCapture(BinlogCapture):
    """One source server that is a MySQL."""

    KIND, NAME = "mysql", "MySQL"
    _GENERATED = "c.generation_expression <> ''"
    _database: MySql

    def connection(self) -> AbstractContextManager[Any]:
        """A cursor, each statement committed by itself."""
        return MySqlConnection(self._database).cursor()

    @property
    def locks(self) -> bool:
        """Whether a global read lock may be taken."""
        return self._database.snapshot_locking != "none"

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """By the types that the columns have in the database, whatever is declared of them."""
        actual = self.tables([table.id]).get(table.id, table)
        return super().misread(actual, columns, snapshot=snapshot)

    def begin_snapshot(self, cursor: Any) -> BinlogPosition:
        """Begin a read-only transaction; the place of the binlog that it sees.

        Raises:
            DatabaseError: the lock was not to be had.
        """
        cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCKED_AT_MOST_SECONDS}")
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._lock(cursor)
        try:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            return self._position(cursor)
        finally:
            # It does not end the transaction: no table was locked by its name.
            cursor.execute("UNLOCK TABLES")

    def _lock(self, cursor: Any) -> None:
        import pymysql

        for left in reversed(range(_TRIES)):
            try:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                return
            except pymysql.err.MySQLError as error:
                if error.args[0] != _LOCK_WAIT_TIMEOUT or not left:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _status(self, cursor: Any) -> Sequence[Any] | None:
        self._newer_or_older(cursor, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")  # before 8.2
        found: Sequence[Any] | None = cursor.fetchone()
        return found

    @staticmethod
    def _newer_or_older(cursor: Any, newer: str, older: str) -> None:
        import pymysql

        try:
            cursor.execute(newer)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != _SYNTAX:
                raise
            cursor.execute(older)

    def replica(self, cursor: Any) -> list[dict[str, Any]]:
        """What each of its channels says, where it is a replica."""
        self._newer_or_older(cursor, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _flush(self, marker: str) -> str:
        """Debezium 3.6.1 cannot parse a FLUSH TABLES of a name with its database in it: its connector would stop for good."""
        return "FLUSH OPTIMIZER_COSTS"

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, or see that it takes them, and that they may be removed.

        Raises:
            DatabaseError: the role may not, or a column is too short; names the statements for somebody who may.
        """
        super().ensure_signal_table(table)
        with self.connection() as cursor:
            cursor.execute(_LENGTHS, list(table))
            lengths: Mapping[str, int] = {name: int(length or 0) for name, length in cursor.fetchall()}
        if any(lengths.get(name, 0) < least for name, least in _LEAST_LENGTHS.items()):
            raise DatabaseError(
                f"MySQL at {self.place}: {table} cannot hold a signal, its columns are {lengths}; let somebody who may, run: "
                f"ALTER TABLE {quote(*table)} MODIFY id varchar(100), MODIFY type varchar(100), MODIFY data longtext"
            )
