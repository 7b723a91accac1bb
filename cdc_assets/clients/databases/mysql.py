"""A MySQL source: its rows by PyMySQL, its columns with PostgreSQL's types, its log, and its tables at one place of that.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` does not tell the place of the binlog that it sees, as MariaDB's does. So the place
is read while nobody can commit: `FLUSH TABLES WITH READ LOCK`, the transaction's begin, the place, `UNLOCK TABLES`, as Debezium
and `mysqldump --single-transaction --source-data` do it. The lock is held for two short statements, and whoever writes waits
meanwhile; where a long statement holds the lock up, it is given up after two seconds, since writers queue behind it.
It wants RELOAD, and servers of some vendors refuse it to everybody.
https://dev.mysql.com/doc/refman/8.4/en/flush.html#flush-tables-with-read-lock

A table's columns are declared, or translated from `information_schema` (docs/reference/databases.md, MySQL).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_capture import BinlogCapture
from cdc_assets.clients.databases.binlog_cut import BinlogRowsCut
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.databases.drivers import pymysql_cursor
from cdc_assets.clients.databases.row_pages import Connection
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.errors import CutRefusedError, DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import quote
from spark.values.other_databases import SIX_DIGITS, UNREAD
from spark.values.sql_dialects import MySqlDialect

# A TIMESTAMP is read in UTC; NO_BACKSLASH_ESCAPES would change how the driver writes bound values.
_ROWS_SESSION = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2"


class MySqlConnection(Connection):
    """One MySQL server's sessions."""

    dialect = MySqlDialect()

    def __init__(self, database: MySql) -> None:
        self._database = database

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements are committed one by one.
        Raises DatabaseError: the driver is missing, or what the server says."""
        with pymysql_cursor("MySQL", self._database) as cursor:
            cursor.execute(_ROWS_SESSION)
            yield cursor


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
        Raises DatabaseError: the lock was not to be had."""
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
        row: Sequence[Any] | None = cursor.fetchone()
        return row

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
        Raises DatabaseError: the role may not, or a column is too short; names the statements for somebody who may."""
        super().ensure_signal_table(table)
        with self.connection() as cursor:
            cursor.execute(_LENGTHS, list(table))
            lengths: Mapping[str, int] = {name: int(length or 0) for name, length in cursor.fetchall()}
        if any(lengths.get(name, 0) < least for name, least in _LEAST_LENGTHS.items()):
            raise DatabaseError(
                f"MySQL at {self.place}: {table} cannot hold a signal, its columns are {lengths}; let somebody who may, run: "
                f"ALTER TABLE {quote(*table)} MODIFY id varchar(100), MODIFY type varchar(100), MODIFY data longtext"
            )


_SHAPE = re.compile(r"(?P<name>[a-z]+)\s*(?:\((?P<args>.*)\))?(?P<flags>[a-z ]*)", re.DOTALL)
_SAME = {
    **dict.fromkeys(("tinyint", "tinyint unsigned", "smallint"), "smallint"),
    **dict.fromkeys(("smallint unsigned", "mediumint", "mediumint unsigned", "int"), "integer"),
    **dict.fromkeys(("int unsigned", "bigint"), "bigint"),
    "bigint unsigned": "bigint unsigned",
    "year": "year",
    "double": "double precision",
    "date": "date",
    "json": "json",
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"), "text"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytea"),
}
_WITH_DIGITS = {
    "datetime": "timestamp({}) without time zone",
    "timestamp": "timestamp({}) with time zone",
    "time": "time({}) without time zone",
}


def translate_column_type(written: str) -> tuple[str, str]:
    """A `column_type`, as PostgreSQL would write it, and its kind (spark.values.other_databases)."""
    shape = _SHAPE.fullmatch(written.strip().lower())
    if shape is None:
        return written, UNREAD
    name, args, flags = shape["name"], shape["args"], (shape["flags"] or "").split()
    if name == "decimal":
        return f"numeric({args or '10,0'})", ""
    if name == "float":
        return "real", SIX_DIGITS
    if name == "bit":
        return ("boolean" if args in (None, "1") else f"bit({args})"), ""
    if name in _WITH_DIGITS:
        return _WITH_DIGITS[name].format(args or 0), ""
    # ZEROFILL implies UNSIGNED.
    unsigned = "unsigned" in flags or "zerofill" in flags
    column_type = _SAME.get(f"{name} unsigned" if unsigned and name != "double" else name)
    return (column_type, "") if column_type else (written, UNREAD)


class MySqlColumns:
    """The tables of one server (translated_catalogue.TranslatedCatalogue)."""

    def __init__(self, database: MySql) -> None:
        self._server = MySqlCapture(database)

    @property
    def place(self) -> str:
        """The server as `host:port`."""
        return f"MySQL at {self._server.place}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists; one query for all."""
        return {id_: translate_table(table) for id_, table in self._server.tables(ids).items()}

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Zero dates, by the types that the columns have in the database."""
        return self._server.misread(table, columns, snapshot=snapshot)


def translate_table(table: CatalogueTable) -> CatalogueTable:
    """A table as information_schema has it, with PostgreSQL's types."""
    return replace(table, columns=tuple(map(_column, table.columns)))


def _column(column: CatalogueColumn) -> CatalogueColumn:
    column_type, kind = translate_column_type(column.type)
    # Elsewhere the kind is the character set: the characters are sent, whatever it is.
    return replace(column, type=column_type, kind=column.kind if column.kind == "generated" else kind)


class MySqlDatabase(MySqlCapture):
    """One source server that is a MySQL (`catalogue.SourceDatabase`)."""

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists, with translated types."""
        return {id_: translate_table(table) for id_, table in self.tables_in_own_types(ids).items()}

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """By the types that the columns have in the database."""
        return MySqlCapture(self._database).misread(table, columns, snapshot=snapshot)


# Texts of values must not depend on the server's settings. Milliseconds, and of SELECT alone.
_CUT_TIMEOUT = "SET SESSION max_execution_time = {}"
# Of a role without RELOAD, and what vendors' servers answer.
_REFUSED = (1044, 1045, 1142, 1227)
_LOCK_NOT_GIVEN = 1205


@contextmanager
def open_cut(database: MySqlCapture, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The snapshot of this moment, until the end of the block.
    Raises CutRefusedError: this server gives nobody, or not this role, a global read lock; or it is a replica; DatabaseError: the
    server writes no binlog, or long statements held the lock up."""
    if not database.locks:
        raise CutRefusedError(f"MySQL at {database.place}: snapshot_locking is none, and without a lock no snapshot has a place")
    with database.connection() as cursor:
        _refuse_replica(database, cursor)
        cursor.execute(_CUT_TIMEOUT.format(int(statement_timeout * 1000)))
        position = _begin(database, cursor)
        try:
            yield BinlogRowsCut(cursor, position)
        finally:
            cursor.execute("ROLLBACK")


@contextmanager
def open_rows(database: MySqlCapture, *, statement_timeout: float) -> Iterator[BinlogRowsCut]:
    """The rows of this moment, without a lock: the place tells only what lies before it for certain."""
    with database.connection() as cursor:
        cursor.execute(_CUT_TIMEOUT.format(int(statement_timeout * 1000)))
        position = database.place_now()
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        try:
            yield BinlogRowsCut(cursor, position)
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
        if error.args[0] == _LOCK_NOT_GIVEN:
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
