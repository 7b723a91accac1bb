"""A source whose changes lie in a binlog, MariaDB or MySQL: its catalogue, its place in the log, and counts at one such place.

File numbers are compared as numbers: `binlog.999999` is followed by `binlog.1000000`. A server that keeps no binlog, or a role
that may not ask for it, is told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from cdc_assets.clients.databases.catalogue import WAY_OUT, CatalogueColumn, CatalogueTable, rows_by_table
from cdc_assets.registry import settings
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import quote


@dataclass(frozen=True, order=True)
class BinlogPosition:
    """Everything before `position` (bytes) of the file with this number."""

    number: int
    position: int
    file: str

    @classmethod
    def of(cls, file: str, position: int | str) -> BinlogPosition:
        """From `binlog.000042` and its bytes."""
        return cls(int(file.rpartition(".")[2]), int(position), file)

    @property
    def text(self) -> str:
        """File and position as people write them: `binlog.000042:990`."""
        return f"{self.file}:{self.position}"

    @property
    def in_positions(self) -> str:
        """As the lake's positions have it, less their epoch: what lies before it sorts below (spark.events.source_positions)."""
        return f"{self.number:010d}.{self.position:016x}"


# For MariaDB's catalogue "Case" equals "case", although both may be tables: else a column of one is there twice.
_COLUMNS = """
SELECT c.table_schema, c.table_name, c.column_name, c.column_type, c.is_nullable = 'YES',
       IF({generated}, 'generated', COALESCE(c.character_set_name, '')),
       COALESCE(c.column_default, 'NULL') <> 'NULL', k.seq_in_index, c.column_comment
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
LEFT JOIN information_schema.statistics k ON k.table_schema = c.table_schema AND k.table_name = c.table_name
     AND k.column_name = c.column_name AND k.index_name = 'PRIMARY'
     AND CAST(k.table_name AS BINARY) = CAST(c.table_name AS BINARY)
     AND CAST(k.table_schema AS BINARY) = CAST(c.table_schema AS BINARY)
WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND ({wanted})
  AND CAST(t.table_name AS BINARY) = CAST(c.table_name AS BINARY)
  AND CAST(t.table_schema AS BINARY) = CAST(c.table_schema AS BINARY)
ORDER BY c.table_schema, c.table_name, c.ordinal_position
"""
_ZERO = "YEAR({c}) = 0 OR MONTH({c}) = 0 OR DAYOFMONTH({c}) = 0"
# Only a snapshot misreads the days that Java's old calendar lacks, and only of a datetime; it fails on the year 0000.
_MISREAD = {
    "date": _ZERO,
    "datetime": _ZERO + " OR {c} BETWEEN '1582-10-05' AND '1582-10-14 23:59:59.999999'",
    "timestamp": _ZERO,
    "year": "{c} = 0",
}
_MAY_GET_ZEROS = (
    "may get zero dates, which arrive as NULL or as 1970-01-01; let the server refuse them "
    f"(sql_mode with STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE), {WAY_OUT}"
)
_HOLDS_DAYS = (
    "holds days that Debezium misreads (zero dates, the year 0000, in a datetime 5 to 14 October 1582); "
    f"correct those rows, {WAY_OUT}"
)
_YEAR_ZERO = "holds the year 0000, at which a snapshot stops the connector, though the column is left out: correct those rows"
_LOCKED_AT_MOST_SECONDS = 3
_STRICT = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"}
_NO_ZERO = {"NO_ZERO_DATE", "NO_ZERO_IN_DATE"}


class BinlogDatabase(ABC):
    """One source server that writes a binlog."""

    KIND: ClassVar[str]
    LOCK_LIMIT: ClassVar[str] = ""

    NAME: str
    """For messages."""
    _GENERATED: str
    """Whether a column is generated, in SQL."""
    _database: MariaDb | MySql

    def __init__(self, database: MariaDb | MySql) -> None:
        self._database = database

    @abstractmethod
    def connection(self) -> AbstractContextManager[Any]:
        """A cursor, each statement committed by itself; the driver's errors are DatabaseErrors."""

    @abstractmethod
    def begin_snapshot(self, cursor: Any) -> BinlogPosition:
        """Begin a read-only transaction; the place of the binlog that it sees."""

    @abstractmethod
    def _status(self, cursor: Any) -> Sequence[Any] | None:
        """File and position where the binlog ends."""

    @abstractmethod
    def _flush(self, marker: str) -> str:
        """A statement that is written into the binlog, and changes nothing."""

    @property
    def place(self) -> str:
        """The server as `host:port`, for messages."""
        return f"{settings.resolve(self._database.host)}:{settings.resolve(self._database.port)}"

    @property
    def user(self) -> str:
        """The role that asks."""
        return settings.resolve(self._database.user)

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists; one query for all."""
        return self.tables_in_own_types(ids)

    def tables_in_own_types(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The same, each column's type as the server writes it."""
        condition = " OR ".join(["(c.table_schema = %s AND c.table_name = %s)"] * len(ids)) or "FALSE"
        with self.connection() as cursor:
            cursor.execute(
                _COLUMNS.format(wanted=condition, generated=self._GENERATED), [name for table in ids for name in table]
            )
            rows = cursor.fetchall()
        return {
            table: CatalogueTable(
                id=table,
                columns=tuple(
                    CatalogueColumn(row[2], row[3], bool(row[4]), row[5], defaulted=bool(row[6]), comment=str(row[8] or ""))
                    for row in columns
                ),
                primary_key=tuple(row[2] for row in sorted((r for r in columns if r[7]), key=lambda r: int(r[7]))),
            )
            for table, columns in rows_by_table(rows).items()
        }

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Columns with days that Debezium misreads, or that may get some: it sends NULL or 1970-01-01.

        A snapshot fails on the year 0000 of any column, wanted or not. One pass over the table.
        """
        types = {c.name: c.type.partition("(")[0] for c in table.columns}
        years = [name for name, kind in types.items() if kind == "year"]
        days = [name for name, kind in types.items() if kind in _MISREAD and name in columns and name not in years]
        with self.connection() as cursor:
            may = days
            if days:
                cursor.execute("SELECT @@global.sql_mode")
                modes = set(cursor.fetchone()[0].split(","))
                if modes >= _NO_ZERO and modes & _STRICT:
                    may = []
            suspects = [*years, *(name for name in days if name not in may)] if snapshot else []
            holding = _which_hold(cursor, table.id, {name: _MISREAD[types[name]] for name in suspects})
        return {
            **dict.fromkeys(may, _MAY_GET_ZEROS),
            **{name: _YEAR_ZERO if name in years else _HOLDS_DAYS for name in holding},
        }

    def counts(self, ids: Sequence[TableId]) -> tuple[BinlogPosition, dict[TableId, int]]:
        """`count(*)` of each table at one and the same place of the binlog, in a read-only transaction."""
        with self.connection() as cursor:
            at = self.begin_snapshot(cursor)
            counts = {}
            for table in ids:
                cursor.execute(f"SELECT COUNT(*) FROM {quote(*table)}")
                counts[table] = int(cursor.fetchone()[0])
            cursor.execute("ROLLBACK")
        return at, counts

    def emit_marker(self, marker: str, prefix: str = "") -> str:
        """Write an event that changes nothing into the binlog, a FLUSH; the position before it.

        Everything that committed before the call lies before the position. Replicas run it too, to no effect.
        """
        with self.connection() as cursor:
            position = self._position(cursor)
            cursor.execute(self._flush(marker))
        return position.text

    def answers(self, queries: Mapping[str, str], schemas: Sequence[str]) -> dict[str, list[Any]]:
        """The rows of each query; `{schemas}` in one stands for the databases' names."""
        rows = {}
        with self.connection() as cursor:
            for name, query in queries.items():
                placed = query.format(schemas=", ".join(["%s"] * len(schemas)))
                cursor.execute(placed, list(schemas) if placed != query else None)
                rows[name] = list(cursor.fetchall())
        return rows

    def binlog(self) -> list[tuple[str, int]]:
        """The binlog's files and their bytes, oldest first."""
        with self.connection() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            return [(str(row[0]), int(row[1])) for row in cursor.fetchall()]

    def _position(self, cursor: Any) -> BinlogPosition:
        row = self._status(cursor)
        if row is None:
            raise DatabaseError(f"{self.NAME} at {self.place}: it writes no binlog; start it with --log-bin --binlog-format=ROW")
        return BinlogPosition.of(row[0], row[1])


def _which_hold(cursor: Any, table: TableId, conditions: Mapping[str, str]) -> list[str]:
    """The columns of which some row meets its condition."""
    if not conditions:
        return []
    tests = ", ".join(f"MAX({condition.format(c=quote(name))})" for name, condition in conditions.items())
    cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCKED_AT_MOST_SECONDS}")
    cursor.execute(f"SELECT {tests} FROM {quote(*table)}")
    return [name for name, holds in zip(conditions, cursor.fetchone(), strict=True) if holds]
