"""What MariaDB and MySQL keep for a source: its signal table, in a database `cdc_assets`. Nothing of theirs is like a slot."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.removal.trace import Trace
from cdc_assets.resources.databases.binlog_database import BinlogDatabase, quoted

_THERE = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
# Access denied: to the database, to the table, for this statement.
_DENIED = (1044, 1142, 1227)


class BinlogTraces:
    """See `trace.Traces`."""

    def __init__(self, source: CapturedSource, database: BinlogDatabase) -> None:
        self._source, self._database = source, database

    @property
    def place(self) -> str:
        """The server's host:port, for messages."""
        return self._database.place

    def find(self) -> list[Trace]:
        """The signal table. The database stays: DROP DATABASE would take along what others have put there meanwhile."""
        table = names.signal_table(self._source)
        with self._database.connection() as cursor:
            cursor.execute(_THERE, list(table))
            there = bool(cursor.fetchone()[0])
        ours = table == TableId(names.SIGNAL_SCHEMA, f"signal_{self._source.name}")
        return [Trace("tables", f"table {table}", f"DROP TABLE {quoted(*table)}", ours=ours)] if there else []

    def drop(self, trace: Trace) -> bool:
        """By its statement, where the role may."""
        import pymysql

        with self._database.connection() as cursor:
            try:
                cursor.execute(trace.statement.replace("DROP TABLE", "DROP TABLE IF EXISTS"))
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _DENIED:
                    raise
                return False
        return True
