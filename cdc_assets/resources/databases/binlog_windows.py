"""Figures by windows of event time, by MariaDB's or MySQL's own SQL over the rows of now.

Texts are told apart by their characters, as in the lake: by a column's own collation `a`, `A` and `a ` are one group.
"""

from __future__ import annotations

import re
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.catalogue import CatalogueColumn
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.mysql_capture import MySqlCapture
from cdc_assets.resources.databases.window_groups import MOST_GROUPS, latest_start, measure_sql, window_rows
from spark.delta.identifiers import quote
from spark.windowed.declared_windows import WindowedSpec

_SECOND = 1_000_000
_SETTINGS = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2"
_NUMBERS_AND_TIMES = re.compile(r"(tiny|small|medium|big)?int|decimal|float|double|year|date|datetime|timestamp|uuid")
"""Types of which driver and lake have one value. The driver has a time of day as a duration, and a bit as bytes."""


def of_mariadb(database: MariaDb, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """As `read_windows` has them."""
    return read_windows(MariaDbDatabase(database), table, spec, collation="utf8mb4_nopad_bin")


def of_mysql(database: MySql, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """As `read_windows` has them; MySQL has the collation since 8.0.17."""
    return read_windows(MySqlCapture(database), table, spec, collation="utf8mb4_0900_bin")


def read_windows(server: BinlogDatabase, table: TableId, spec: WindowedSpec, *, collation: str) -> list[tuple[Any, ...]]:
    """Keys, start (microseconds since 1970) and measures of each result, as the driver has them.

    Raises:
        DatabaseError: the server cannot be asked, has more results than are held in memory, or a column is of a type of which
            driver and lake have different values.
    """
    found = server.tables([table]).get(table)
    if found is None:
        raise DatabaseError(f"{table} is not at {server.NAME} at {server.place}, or {server.user} may not read it")
    columns = {column.name: column for column in found.columns}
    if absent := [name for name in spec.read if name not in columns]:
        raise DatabaseError(f"{table} at {server.place} has no column {', '.join(absent)}")
    query = _query(table, spec, {name: _comparable(table, columns[name], collation) for name in spec.read})
    with server.connection() as cursor:
        cursor.execute(_SETTINGS)
        cursor.execute("START TRANSACTION READ ONLY")
        cursor.execute(f"{query} LIMIT {MOST_GROUPS + 1}")
        rows = cursor.fetchall()
    return window_rows(rows, table, server.place, spec)


def _comparable(table: TableId, column: CatalogueColumn, collation: str) -> str:
    name, kind = quote(column.name), column.type.split("(")[0].split(" ")[0]
    if column.kind not in ("", "generated"):
        return f"CONVERT({name} USING utf8mb4) COLLATE {collation}"
    if not _NUMBERS_AND_TIMES.fullmatch(kind):
        raise DatabaseError(f"{table}.{column.name} is {column.type}: windows over it cannot be compared with the source")
    # Else the driver has the digits that the server shows of it, and not the number.
    return f"CAST({name} AS DOUBLE)" if kind == "float" else name


def _query(table: TableId, spec: WindowedSpec, columns: dict[str, str]) -> str:
    # The number of a moment in the session's time zone, UTC; a datetime has none.
    micros = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {quote(spec.event_time)})"
    every, count = spec.every * _SECOND, spec.size // spec.every
    hops = " UNION ALL ".join(f"SELECT {back} AS _cdc_back" for back in range(count))
    own = {name: f"_cdc_{i}" for i, name in enumerate(columns)}
    keys = [*(own[name] for name in spec.by), f"{latest_start('_cdc_micros', every)} - _cdc_back * {every}"]
    measures = [measure_sql(each, own) for each in spec.measures]
    values = ", ".join(f"{value} AS {own[name]}" for name, value in columns.items())
    timed = f"SELECT {values}, {micros} AS _cdc_micros FROM {quote(*table)} WHERE {quote(spec.event_time)} IS NOT NULL"
    return f"SELECT {', '.join([*keys, *measures])} FROM ({timed}) timed, ({hops}) hops GROUP BY {', '.join(keys)}"
