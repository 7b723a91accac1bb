"""What MariaDB and MySQL keep for a source: its signal table, in a database `cdc_assets`. Nothing of theirs is like a slot."""

from __future__ import annotations

import re

from cdc_assets import names
from cdc_assets.kinds import expect
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.removal.trace import Trace
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from spark.delta.identifiers import quote

# Of the signal table's database: whether it is there, whether the table is, and what else is in it, also what is no table.
_THERE = """
SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = %s),
 (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s),
 (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name <> %s)
 + (SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = %s)
 + (SELECT COUNT(*) FROM information_schema.events WHERE event_schema = %s)
"""
# Access denied: to the database, to the table, for this statement.
_DENIED = (1044, 1142, 1227)


class BinlogTraces:
    """What is ours in a MariaDB or a MySQL (`trace.Traces`)."""

    def __init__(self, source: CapturedSource, database: BinlogDatabase) -> None:
        self._source, self._database = source, database

    @property
    def place(self) -> str:
        """The server's host:port, for messages."""
        return self._database.place

    def find(self) -> list[Trace]:
        """The signal table, and its database where nothing else is in it.

        The database stays unless it is asked for: DROP DATABASE takes along what others have put there a moment before.
        """
        table = names.signal_table(self._source)
        with self._database.connection() as cursor:
            cursor.execute(_THERE, [table.schema, *table, *table, table.schema, table.schema])
            database, there, others = map(int, cursor.fetchone())
        ours = table == TableId(names.SIGNAL_SCHEMA, f"signal_{self._source.name}")
        found = [Trace("tables", f"table {table}", f"DROP TABLE {quote(*table)}", ours=ours)] if there else []
        if ours and database and not others:
            what, statement = f"database {table.schema}, empty now", f"DROP DATABASE {quote(table.schema)}"
            found.append(Trace("tables", what, statement, ours=False, costs=False))
        return found

    def drop(self, trace: Trace) -> bool:
        """By its statement, where the role may."""
        import pymysql

        with self._database.connection() as cursor:
            try:
                cursor.execute(re.sub("^DROP (TABLE|DATABASE)", r"DROP \1 IF EXISTS", trace.statement))
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _DENIED:
                    raise
                return False
        return True


def mariadb_traces(source: CapturedSource) -> BinlogTraces:
    """What we keep at a MariaDB."""
    from cdc_assets.resources.databases.mariadb_capture import MariaDbCapture

    return BinlogTraces(source, MariaDbCapture(expect(source.database, MariaDb)))


def mysql_traces(source: CapturedSource) -> BinlogTraces:
    """The same of a MySQL server."""
    from cdc_assets.resources.databases.mysql_capture import MySqlCapture

    return BinlogTraces(source, MySqlCapture(expect(source.database, MySql)))
