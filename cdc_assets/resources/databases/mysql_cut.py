"""A MySQL source at one place of its binlog, and what its tables hold there.

MySQL's snapshot does not tell its place. So it is begun under a global read lock, as `mysqldump --single-transaction
--source-data` does it: no transaction can commit between the snapshot and the place. The lock is held for two short statements,
and waited for two seconds at most (mysql_capture). It wants RELOAD, and servers of some vendors refuse it to everybody.
https://dev.mysql.com/doc/refman/8.4/en/flush.html#flush-tables-with-read-lock
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets.errors import CutRefusedError, DatabaseError
from cdc_assets.resources.databases.binlog_cut import BinlogRowsCut
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.mysql_capture import MySqlCapture

# Texts of values must not depend on the server's settings. Milliseconds, and of SELECT alone.
_SETTINGS = "SET SESSION max_execution_time = {}"
# Of a role without RELOAD, and what vendors' servers answer.
_REFUSED = (1044, 1045, 1142, 1227)
_LOCK_WAIT_TIMEOUT = 1205


@contextmanager
def open_cut(database: MySqlCapture, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The snapshot of this moment, until the end of the block.

    Raises:
        CutRefusedError: this server gives nobody, or not this role, a global read lock; or it is a replica.
        DatabaseError: the server writes no binlog, or long statements held the lock up.
    """
    if not database.locks:
        raise CutRefusedError(f"MySQL at {database.place}: snapshot_locking is none, and without a lock no snapshot has a place")
    with database.connection() as cursor:
        _refuse_replica(database, cursor)
        cursor.execute(_SETTINGS.format(int(statement_timeout * 1000)))
        place = _begin(database, cursor)
        try:
            yield BinlogRowsCut(cursor, place)
        finally:
            cursor.execute("ROLLBACK")


@contextmanager
def open_rows(database: MySqlCapture, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The rows of this moment, without a lock: the place tells only what lies before it for certain."""
    with database.connection() as cursor:
        cursor.execute(_SETTINGS.format(int(statement_timeout * 1000)))
        place = database.place_now()
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            yield BinlogRowsCut(cursor, place)
        finally:
            cursor.execute("ROLLBACK")


def _begin(database: MySqlCapture, cursor: Any) -> BinlogPosition:
    import pymysql

    try:
        return database.begin_snapshot(cursor)
    except pymysql.err.MySQLError as error:
        if error.args[0] in _REFUSED:
            raise CutRefusedError(
                f"MySQL at {database.place} refuses {database.user} a global read lock ({error.args[-1]}): "
                f"GRANT RELOAD, REPLICATION CLIENT ON *.* TO '{database.user}'@'%', or declare snapshot_locking: none"
            ) from error
        if error.args[0] == _LOCK_WAIT_TIMEOUT:
            raise DatabaseError(
                f"MySQL at {database.place}: a long statement or transaction held up the global read lock each time, and writers "
                "are not let wait longer than two seconds; run it again, or with --two-step"
            ) from error
        raise


def _refuse_replica(database: MySqlCapture, cursor: Any) -> None:
    """A lock there holds up the applier, which waits for others in its turn."""
    if any(
        str(status.get("Replica_SQL_Running", status.get("Slave_SQL_Running"))) == "Yes" for status in database.replica(cursor)
    ):
        raise CutRefusedError(f"MySQL at {database.place} is a replica, where no lock is taken; compare with the primary")
