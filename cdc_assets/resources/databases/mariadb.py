"""A MariaDB source: its catalogue, its place in the binlog, and counts at one such place without stopping anybody.

`START TRANSACTION WITH CONSISTENT SNAPSHOT` tells the binlog position that it sees (`binlog_snapshot_file`,
`binlog_snapshot_position`): https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError, DriverMissingError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.resources.databases.binlog import BinlogPosition
from cdc_assets.resources.databases.catalogue import WAY_OUT, CatalogueColumn, CatalogueTable

_COLUMNS = """
SELECT c.table_schema, c.table_name, c.column_name, c.column_type, c.is_nullable = 'YES',
       IF(c.is_generated = 'ALWAYS', 'generated', COALESCE(c.character_set_name, '')),
       COALESCE(c.column_default, 'NULL') <> 'NULL', k.seq_in_index
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
LEFT JOIN information_schema.statistics k ON k.table_schema = c.table_schema AND k.table_name = c.table_name
     AND k.column_name = c.column_name AND k.index_name = 'PRIMARY'
WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND ({wanted})
ORDER BY c.table_schema, c.table_name, c.ordinal_position
"""
# Debezium 3.5's grammar lacks them: "no viable alternative" when it reads the table's definition.
_UNKNOWN = ("inet4", "inet6")
_UNPARSED = "is of a type whose definition Debezium cannot parse: its connector would stop; keep the address in a varchar"
_ZERO = "YEAR({c}) = 0 OR MONTH({c}) = 0 OR DAYOFMONTH({c}) = 0"
# Only a snapshot misreads the days that Java's old calendar lacks, and only of a datetime; it fails on the year 0000.
_MISREAD = {
    "date": _ZERO,
    "datetime": _ZERO + " OR {c} BETWEEN '1582-10-05' AND '1582-10-14 23:59:59.999999'",
    "timestamp": _ZERO,
    "year": "{c} = 0",
}
# What a binlog file begins with, before its first transaction.
_HEAD = ("Format_desc", "Start_encryption", "Gtid_list", "Binlog_checkpoint")
_LOOKS, _LOOK_SECONDS = 50, 0.1
_STRICT = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"}
_NO_ZERO = {"NO_ZERO_DATE", "NO_ZERO_IN_DATE"}


class MariaDbDatabase:
    """One source server."""

    def __init__(self, database: MariaDb) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """host:port, for messages."""
        return f"{settings.resolve(self._database.host)}:{settings.resolve(self._database.port)}"

    @property
    def user(self) -> str:
        """The role that asks."""
        return settings.resolve(self._database.user)

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists; one query for all."""
        wanted = " OR ".join(["(c.table_schema = %s AND c.table_name = %s)"] * len(ids)) or "FALSE"
        with self.connection() as cursor:
            cursor.execute(_COLUMNS.format(wanted=wanted), [part for table in ids for part in table])
            rows = cursor.fetchall()
        grouped: dict[TableId, list[Any]] = {}
        for row in rows:
            grouped.setdefault(TableId(row[0], row[1]), []).append(row)
        return {
            table: CatalogueTable(
                id=table,
                columns=tuple(CatalogueColumn(row[2], row[3], bool(row[4]), row[5], defaulted=bool(row[6])) for row in columns),
                primary_key=tuple(row[2] for row in sorted((r for r in columns if r[7]), key=lambda r: int(r[7]))),
            )
            for table, columns in grouped.items()
        }

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Columns with days that Debezium misreads, or that may get some: it sends NULL or 1970-01-01. One pass over the table.

        A column of a type that Debezium's parser does not know stops the connector, whether it is wanted or not.
        """
        unknown = {c.name: _UNPARSED for c in table.columns if c.type in _UNKNOWN}
        return unknown | self._zero_dates(table, columns, snapshot=snapshot)

    def _zero_dates(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        dated = [c.name for c in table.columns if c.name in columns and c.type.partition("(")[0] in _MISREAD]
        if not dated:
            return {}
        with self.connection() as cursor:
            cursor.execute("SELECT @@global.sql_mode")
            modes = set(cursor.fetchone()[0].split(","))
            if not (modes >= _NO_ZERO and modes & _STRICT):
                told = "may get zero dates, which arrive as NULL or as 1970-01-01; let the server refuse them "
                told += "(sql_mode with STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE), "
                told += WAY_OUT
                years = {c.name for c in table.columns if c.type.startswith("year")}
                return {name: told for name in dated if name not in years}
            if not snapshot:
                return {}
            kinds = {c.name: c.type.partition("(")[0] for c in table.columns}
            tests = ", ".join(f"MAX({_MISREAD[kinds[name]].format(c=quoted(name))})" for name in dated)
            cursor.execute(f"SELECT {tests} FROM {quoted(*table.id)}")
            found = cursor.fetchone()
        told = "holds days that Debezium misreads (zero dates, the year 0000, in a datetime 5 to 14 October 1582); "
        told += "correct those rows, "
        return {name: told + WAY_OUT for name, held in zip(dated, found, strict=True) if held}

    def counts(self, ids: Sequence[TableId]) -> tuple[BinlogPosition, dict[TableId, int]]:
        """`count(*)` of each table at one and the same place of the binlog, in a read-only transaction."""
        with self.connection() as cursor:
            at = self.settled_snapshot(cursor)
            counts = {}
            for table in ids:
                cursor.execute(f"SELECT COUNT(*) FROM {quoted(*table)}")
                counts[table] = int(cursor.fetchone()[0])
            cursor.execute("ROLLBACK")
        return at, counts

    def settled_snapshot(self, cursor: Any) -> BinlogPosition:
        """Begin a read-only transaction; the place of the binlog that it sees."""
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        at = self._snapshot(cursor)
        # While a binlog is rotated, MariaDB tells the new file's begin although the last transaction of the file before is
        # not visible yet (13 of 120 snapshots under load, 10.11): another look a moment later settles it.
        for _ in range(_LOOKS):
            if not _begins_file(cursor, at):
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

    def emit_marker(self, marker: str) -> str:
        """Write an event that changes nothing into the binlog: a FLUSH of a table that is not there; the position before it.

        Everything that committed before the call lies before the position. Replicas run it too, to no effect.
        """
        with self.connection() as cursor:
            position = self._position(cursor)
            cursor.execute(f"FLUSH TABLES {quoted('cdc_assets', marker)}")
        return position.text

    def answers(self, queries: Mapping[str, str], schemas: Sequence[str]) -> dict[str, list[Any]]:
        """The rows of each query; `{schemas}` in one stands for the databases' names."""
        found = {}
        with self.connection() as cursor:
            for name, query in queries.items():
                placed = query.format(schemas=", ".join(["%s"] * len(schemas)))
                cursor.execute(placed, list(schemas) if placed != query else None)
                found[name] = list(cursor.fetchall())
        return found

    def binlog(self) -> list[tuple[str, int]]:
        """The binlog's files and their bytes, oldest first."""
        with self.connection() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            return [(str(row[0]), int(row[1])) for row in cursor.fetchall()]

    def _position(self, cursor: Any) -> BinlogPosition:
        cursor.execute("SHOW MASTER STATUS")
        row = cursor.fetchone()
        if row is None:
            raise DatabaseError(f"MariaDB at {self.place}: it writes no binlog; start it with --log-bin --binlog-format=ROW")
        return BinlogPosition.of(row[0], row[1])

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A cursor, each statement committed by itself."""
        try:
            import pymysql
        except ImportError as error:
            raise DriverMissingError("MariaDB", "PyMySQL", "uv sync --inexact --extra mariadb") from error
        database = self._database
        try:
            connection = pymysql.connect(
                host=settings.resolve(database.host),
                port=int(settings.resolve(database.port)),
                user=settings.resolve(database.user),
                password=settings.secret(database.password),
                **tls(database.sslmode),
                connect_timeout=10,
                charset="utf8mb4",
                autocommit=True,
                program_name="cdc_assets",
            )
            with connection, connection.cursor() as cursor:
                yield cursor
        except (pymysql.err.MySQLError, OSError) as error:
            reason = error.args[-1] if error.args else type(error).__name__
            raise DatabaseError(f"MariaDB at {self.place}: {reason}") from error


def _begins_file(cursor: Any, at: BinlogPosition) -> bool:
    """Whether no transaction of the file lies before the position."""
    cursor.execute(f"SHOW BINLOG EVENTS IN %s LIMIT {len(_HEAD) + 1}", [at.file])
    return not any(kind not in _HEAD and position < at.position for _, position, kind, *_ in cursor.fetchall())


def tls(mode: str) -> dict[str, Any]:
    """What PyMySQL is told, as Debezium's mode of that name means it: told nothing, it takes TLS where the server has it."""
    import ssl

    if mode == "disable":
        return {"ssl_disabled": True}
    context = ssl.create_default_context()
    context.check_hostname = mode == "verify-full"
    if mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def quoted(*parts: str) -> str:
    """`` `schema`.`table` ``, whatever is in the names."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
