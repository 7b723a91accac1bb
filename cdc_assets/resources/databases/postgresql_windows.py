"""Figures by windows of event time, by PostgreSQL's own SQL over the rows of now."""

from __future__ import annotations

from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql import PostgresDatabase, own_rows
from spark.delta.identifiers import double_quote
from spark.windowed.declared_windows import Measure, WindowedSpec

MOST_GROUPS = 200_000
"""Held in memory; of more nothing is compared."""
_SECOND = 1_000_000
_FUNCTIONS = {"count": "count({})", "sum": "sum({})", "min": "min({})", "max": "max({})", "distinct": "count(DISTINCT {})"}


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
    if len(found) > MOST_GROUPS:
        raise DatabaseError(f"{table} at {server.place} has more than {MOST_GROUPS:,} results of windows {spec.name}")
    return [(*row[: len(spec.by)], int(row[len(spec.by)]), *row[len(spec.by) + 1 :]) for row in found]


def _query(rows: str, spec: WindowedSpec) -> str:
    at, every = double_quote(spec.event_time), spec.every * _SECOND
    # `%` has the sign of what is divided: before 1970 a window would begin too late.
    latest = f"cdc_micros - ((cdc_micros % {every}) + {every}) % {every}"
    timed = f"SELECT *, (extract(epoch FROM {at}) * {_SECOND})::bigint AS cdc_micros FROM {rows} WHERE isfinite({at})"
    keys = [*map(double_quote, spec.by), f"{latest} - back * {every}::bigint"]
    measures = [_measure(each) for each in spec.measures]
    hops = f"generate_series(0, {spec.size // spec.every - 1}) AS hops(back)"
    return f"SELECT {', '.join([*keys, *measures])} FROM ({timed}) timed, {hops} GROUP BY {', '.join(keys)}"


def _measure(measure: Measure) -> str:
    return _FUNCTIONS[measure.function].format(double_quote(measure.column) if measure.column else "*")
