"""A MariaDB source: its catalogue, its place in the binlog, counts at one such place, and what its tables hold there.

Nobody is stopped. `START TRANSACTION WITH CONSISTENT SNAPSHOT` tells the binlog position that it sees (`binlog_snapshot_file`,
`binlog_snapshot_position`): https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
A savepoint gives back a scan's metadata lock, but only in a session that writes no binlog (trans_rollback_to_savepoint() in
sql/transaction.cc); a role without BINLOG ADMIN holds it until the end of the comparison.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogDatabase, BinlogPosition
from cdc_assets.clients.databases.binlog_capture import BinlogCapture, BinlogSignals
from cdc_assets.clients.databases.binlog_cut import BinlogRowsCut
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.drivers import pymysql_cursor
from cdc_assets.registry.databases import MariaDb
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import quote

# Debezium 3.5's grammar lacks them: "no viable alternative" when it reads the table's definition.
_UNKNOWN = ("inet4", "inet6")
_UNPARSED = "is of a type whose definition Debezium cannot parse: its connector would stop; keep the address in a varchar"
# What a binlog file begins with, before its first transaction.
_HEAD = ("Format_desc", "Start_encryption", "Gtid_list", "Binlog_checkpoint")
_LOOKS, _LOOK_SECONDS = 50, 0.1


class MariaDbDatabase(BinlogDatabase):
    """One source server that is a MariaDB."""

    KIND, NAME = "mariadb", "MariaDB"
    _GENERATED = "c.is_generated = 'ALWAYS'"
    _database: MariaDb

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """A column of a type that Debezium's parser does not know stops the connector, whether it is wanted or not."""
        unknown = {c.name: _UNPARSED for c in table.columns if c.type in _UNKNOWN}
        return unknown | super().misread(table, columns, snapshot=snapshot)

    def definitions(self, ids: Sequence[TableId]) -> dict[TableId, str]:
        """SHOW CREATE TABLE of each table that exists, with names in backticks."""
        with self.connection() as cursor:
            cursor.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1")
            definitions = {}
            for table in ids:
                # Of a table that the role may not read, as of one that is not there, nothing is found.
                cursor.execute("SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = %s", [*table])
                if cursor.fetchone():
                    cursor.execute(f"SHOW CREATE TABLE {quote(*table)}")
                    definitions[table] = str(cursor.fetchone()[1])
        return definitions

    def begin_snapshot(self, cursor: Any) -> BinlogPosition:
        """Begin a read-only transaction; the place of the binlog that it sees."""
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        at = self._snapshot(cursor)
        # While a binlog is rotated, MariaDB tells the new file's begin although the last transaction of the file before is
        # not visible yet (13 of 120 snapshots under load, 10.11): another look a moment later settles it.
        for _ in range(_LOOKS):
            cursor.execute(f"SHOW BINLOG EVENTS IN %s LIMIT {len(_HEAD) + 1}", [at.file])
            if any(kind not in _HEAD and position < at.position for _, position, kind, *_ in cursor.fetchall()):
                break
            time.sleep(_LOOK_SECONDS)
            before, at = at, self._snapshot(cursor)
            if at == before:
                break
        return at

    def _snapshot(self, cursor: Any) -> BinlogPosition:
        """Begin a new read-only transaction; where in the binlog it stands."""
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
        status = {name.lower(): value for name, value in cursor.fetchall()}
        if not status.get("binlog_snapshot_file"):
            raise DatabaseError(f"MariaDB at {self.place}: it writes no binlog; start it with --log-bin --binlog-format=ROW")
        return BinlogPosition.of(status["binlog_snapshot_file"], status["binlog_snapshot_position"])

    def _status(self, cursor: Any) -> Sequence[Any] | None:
        cursor.execute("SHOW MASTER STATUS")
        row: Sequence[Any] | None = cursor.fetchone()
        return row

    def _flush(self, marker: str) -> str:
        """Of a table that is not there."""
        return f"FLUSH TABLES {quote('cdc_assets', marker)}"

    def connection(self) -> AbstractContextManager[Any]:
        """A cursor, each statement committed by itself."""
        return pymysql_cursor(self.NAME, self._database)


class MariaDbSignals(BinlogSignals, MariaDbDatabase):
    """A MariaDB's signal table."""


class MariaDbCapture(BinlogCapture, MariaDbSignals):
    """Its signal table, its place in the binlog, and the statements of it."""


# Texts of values must not depend on the server's settings.
_SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2, max_statement_time = {seconds}"
# Lists of keys are ranges of the index: a list of 1,000 and more would else be joined as a table, and the whole index read.
_SETTINGS += ", in_predicate_conversion_threshold = 0"


@contextmanager
def open_cut(database: MariaDbDatabase, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The snapshot of this moment, until the end of the block.
    Raises DatabaseError: the server writes no binlog, or is a replica."""
    with database.connection() as cursor:
        # SHOW ALL SLAVES STATUS would need one more privilege.
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        if any(int(count) for _, count in cursor.fetchall()):
            raise DatabaseError(
                f"MariaDB at {database.place} is a replica: it sees less than its primary; compare with the primary"
            )
        _without_binlog(cursor)
        cursor.execute(_SETTINGS.format(seconds=statement_timeout))
        position = database.begin_snapshot(cursor)
        try:
            yield BinlogRowsCut(cursor, position)
        finally:
            cursor.execute("ROLLBACK")


def _without_binlog(cursor: Any) -> None:
    import pymysql

    try:
        cursor.execute("SET SESSION sql_log_bin = 0")
    except pymysql.err.MySQLError as error:
        if error.args[0] != pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
