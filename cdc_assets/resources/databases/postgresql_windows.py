"""Figures by windows of event time, by PostgreSQL's own SQL over the rows of now."""

from __future__ import annotations

from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql import PostgresDatabase, own_rows
from cdc_assets.resources.databases.window_groups import MOST_GROUPS, latest_start, measure_sql, window_rows
from spark.delta.identifiers import double_quote
from spark.windowed.declared_windows import WindowedSpec

_SECOND = 1_000_000


def read_windows(database: Database, table: TableId, spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """Keys, start (microseconds since 1970) and measures of each result, as the driver has them.

    Raises:
        DatabaseError: the server cannot be asked, or has more results than are held in memory.
    """
    server = PostgresDatabase(database)
    with server.connection() as connection:
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET TimeZone = 'UTC'")
        query = _query(own_rows(connection, table), spec)
        found = connection.execute(f"{query} LIMIT {MOST_GROUPS + 1}".encode()).fetchall()
    return window_rows(found, table, server.place, spec)


def _query(rows: str, spec: WindowedSpec) -> str:
    at, every = double_quote(spec.event_time), spec.every * _SECOND
    columns = {name: f"_cdc_{i}" for i, name in enumerate(spec.read)}
    values = ", ".join(f"{double_quote(name)} AS {own}" for name, own in columns.items())
    timed = f"SELECT {values}, (extract(epoch FROM {at}) * {_SECOND})::bigint AS _cdc_micros FROM {rows} WHERE isfinite({at})"
    keys = [*(columns[name] for name in spec.by), f"{latest_start('_cdc_micros', every)} - _cdc_back * {every}::bigint"]
    measures = [measure_sql(each, columns) for each in spec.measures]
    hops = f"generate_series(0, {spec.size // spec.every - 1}) AS _cdc_hops(_cdc_back)"
    return f"SELECT {', '.join([*keys, *measures])} FROM ({timed}) timed, {hops} GROUP BY {', '.join(keys)}"
