"""Figures by windows of event time, by the server's own SQL over the rows of now: PostgreSQL's, MariaDB's, MySQL's.

Texts are told apart by their characters, as in the lake: by a column's own collation `a`, `A` and `a ` are one group. More
results than are held in memory, and types of which driver and lake have different values, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.databases.catalogue import CatalogueColumn
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.mysql import MySqlCapture
from cdc_assets.clients.databases.postgresql import PostgresDatabase, own_rows
from cdc_assets.registry.databases import Database, MariaDb, MySql
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import double_quote, quote
from spark.upkeep.declared_windows import Measure, WindowedSpec

MOST_GROUPS = 200_000
"""Held in memory; of more nothing is compared."""
_FUNCTIONS = {"count": "count({})", "sum": "sum({})", "min": "min({})", "max": "max({})", "distinct": "count(DISTINCT {})"}


def measure_sql(measure: Measure, columns: Mapping[str, str]) -> str:
    """The figure, of a column as `columns` writes it."""
    return _FUNCTIONS[measure.function].format(columns[measure.column] if measure.column else "*")


def latest_start(micros: str, every: int) -> str:
    """The newest window that an event is in, in microseconds; `%` has the sign of what is divided, as before 1970."""
    return f"{micros} - (({micros} % {every}) + {every}) % {every}"


def window_rows(found: Sequence[Any], table: TableId, place: str, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """Keys, start and measures of each result, with the start as an int.
    Raises DatabaseError: they are more than are held in memory."""
    if len(found) > MOST_GROUPS:
        raise DatabaseError(f"{table} at {place} has more than {MOST_GROUPS:,} results of windows {spec.name}")
    return [(*row[: len(spec.by)], int(row[len(spec.by)]), *row[len(spec.by) + 1 :]) for row in found]


_MICROS_PER_SECOND = 1_000_000


def read_windows(database: Database, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """Keys, start (microseconds since 1970) and measures of each result, as the driver has them.
    Raises DatabaseError: the server cannot be asked, or has more results than are held in memory."""
    server = PostgresDatabase(database)
    with server.connection() as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET TimeZone = 'UTC'")
        query = _postgresql_query(own_rows(connection, table), spec)
        rows = connection.execute(f"{query} LIMIT {MOST_GROUPS + 1}".encode()).fetchall()
    return window_rows(rows, table, server.place, spec)


def _postgresql_query(rows: str, spec: WindowedSpec) -> str:
    at, every = double_quote(spec.event_time), spec.every * _MICROS_PER_SECOND
    columns = {name: f"_cdc_{i}" for i, name in enumerate(spec.read)}
    values = ", ".join(f"{double_quote(name)} AS {own}" for name, own in columns.items())
    micros = f"(extract(epoch FROM {at}) * {_MICROS_PER_SECOND})::bigint"
    timed = f"SELECT {values}, {micros} AS _cdc_micros FROM {rows} WHERE isfinite({at})"
    keys = [*(columns[name] for name in spec.by), f"{latest_start('_cdc_micros', every)} - _cdc_back * {every}::bigint"]
    measures = [measure_sql(measure, columns) for measure in spec.measures]
    hops = f"generate_series(0, {spec.size // spec.every - 1}) AS _cdc_hops(_cdc_back)"
    return f"SELECT {', '.join([*keys, *measures])} FROM ({timed}) timed, {hops} GROUP BY {', '.join(keys)}"


_BINLOG_SESSION = "SET SESSION time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 2"
_NUMBERS_AND_TIMES = re.compile(r"(tiny|small|medium|big)?int|decimal|float|double|year|date|datetime|timestamp|uuid")
"""Types of which driver and lake have one value. The driver has a time of day as a duration, and a bit as bytes."""


def of_mariadb(database: MariaDb, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """As `read_windows` has them."""
    return read_binlog_windows(MariaDbDatabase(database), table, spec, collation="utf8mb4_nopad_bin")


def of_mysql(database: MySql, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """As `read_windows` has them; MySQL has the collation since 8.0.17."""
    return read_binlog_windows(MySqlCapture(database), table, spec, collation="utf8mb4_0900_bin")


def read_binlog_windows(server: BinlogDatabase, table: TableId, spec: WindowedSpec, *, collation: str) -> list[tuple[Any, ...]]:
    """Keys, start (microseconds since 1970) and measures of each result, as the driver has them.
    Raises DatabaseError: the server cannot be asked, has more results than are held in memory, or a column is of a type of which
    driver and lake have different values."""
    catalogue_table = server.tables([table]).get(table)
    if catalogue_table is None:
        raise DatabaseError(f"{table} is not at {server.NAME} at {server.place}, or {server.user} may not read it")
    columns = {column.name: column for column in catalogue_table.columns}
    if absent := [name for name in spec.read if name not in columns]:
        raise DatabaseError(f"{table} at {server.place} has no column {', '.join(absent)}")
    query = _binlog_query(table, spec, {name: _comparable(table, columns[name], collation) for name in spec.read})
    with server.connection() as cursor:
        cursor.execute(_BINLOG_SESSION)
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


def _binlog_query(table: TableId, spec: WindowedSpec, columns: dict[str, str]) -> str:
    # The number of a moment in the session's time zone, UTC; a datetime has none.
    micros = f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {quote(spec.event_time)})"
    every, count = spec.every * _MICROS_PER_SECOND, spec.size // spec.every
    hops = " UNION ALL ".join(f"SELECT {back} AS _cdc_back" for back in range(count))
    own = {name: f"_cdc_{i}" for i, name in enumerate(columns)}
    keys = [*(own[name] for name in spec.by), f"{latest_start('_cdc_micros', every)} - _cdc_back * {every}"]
    measures = [measure_sql(measure, own) for measure in spec.measures]
    values = ", ".join(f"{value} AS {own[name]}" for name, value in columns.items())
    timed = f"SELECT {values}, {micros} AS _cdc_micros FROM {quote(*table)} WHERE {quote(spec.event_time)} IS NOT NULL"
    return f"SELECT {', '.join([*keys, *measures])} FROM ({timed}) timed, ({hops}) hops GROUP BY {', '.join(keys)}"
