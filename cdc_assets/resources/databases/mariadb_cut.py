"""A MariaDB source at one place of its binlog, and what its tables hold there.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` tells its place: `binlog_snapshot_file`, `binlog_snapshot_position`. A savepoint
gives back a scan's metadata lock, but only in a session that writes no binlog (trans_rollback_to_savepoint() in
sql/transaction.cc); a role without BINLOG ADMIN holds it until the end of the comparison.
https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.resources.databases.binlog_cut import BinlogRowsCut
from cdc_assets.resources.databases.mariadb import MariaDbDatabase

# Texts of values must not depend on the server's settings.
_SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2, max_statement_time = {seconds}"
# Lists of keys are ranges of the index: a list of 1,000 and more would else be joined as a table, and the whole index read.
_SETTINGS += ", in_predicate_conversion_threshold = 0"


@contextmanager
def open_cut(database: MariaDbDatabase, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The snapshot of this moment, until the end of the block.

    Raises:
        DatabaseError: the server writes no binlog, or is a replica.
    """
    with database.connection() as cursor:
        # SHOW ALL SLAVES STATUS would need one more privilege.
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
        if any(int(count) for _, count in cursor.fetchall()):
            raise DatabaseError(
                f"MariaDB at {database.place} is a replica: it sees less than its primary; compare with the primary"
            )
        _without_binlog(cursor)
        cursor.execute(_SETTINGS.format(seconds=statement_timeout))
        place = database.begin_snapshot(cursor)
        try:
            yield BinlogRowsCut(cursor, place)
        finally:
            cursor.execute("ROLLBACK")


def _without_binlog(cursor: Any) -> None:
    import pymysql

    try:
        cursor.execute("SET SESSION sql_log_bin = 0")
    except pymysql.err.MySQLError as error:
        if error.args[0] != pymysql.constants.ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
