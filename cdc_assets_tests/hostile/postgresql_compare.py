"""PostgreSQL's rows beside silver's, by a reader that is not Spark: delta-rs reads silver, PostgreSQL writes both as text."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.hostile.names import quoted
from cdc_assets_tests.hostile.postgresql_tables import Table
from cdc_assets_tests.support.lake.delta_reader import Rows, read
from cdc_assets_tests.support.oracles.type_oracle import literal

if TYPE_CHECKING:
    import psycopg

# What a column is read back as: without a size, so that silver's blanks and digits are seen as they are.
_TYPES = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.attname, t.oid, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod AS size
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, b.attname, t.oid, t.typtype, t.typbasetype, t.typtypmod, b.typtypmod
  FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
SELECT attname, CASE oid WHEN 'bpchar'::regtype THEN 'text' WHEN 'bpchar[]'::regtype THEN 'text[]'
  WHEN 'bit'::regtype THEN format_type(oid, size) ELSE format_type(oid, NULL) END
FROM base WHERE typtype <> 'd' ORDER BY attnum
"""
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
_MINUS_ZERO = re.compile(r"(?<![\d.eE])-0(?=[,}]|$)")


def in_source(connection: psycopg.Connection, table: Table) -> Rows:
    """The table's own rows, each value as PostgreSQL writes it."""
    _set(connection)
    listed = ", ".join(quoted(name) for name in _types(connection, table))
    return _copied(connection, f"SELECT {listed} FROM {table.own_rows}", table, _types(connection, table))


def in_silver(connection: psycopg.Connection, table: Table, path: str, condition: str = "true") -> Rows:
    """Silver's rows: what delta-rs reads is read by PostgreSQL as values of the columns' types, and written by it."""
    _set(connection)
    types = _types(connection, table)
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(types.values()))
    connection.execute(f"DROP TABLE IF EXISTS pg_temp.told; CREATE TEMP TABLE told ({columns})".encode())
    with connection.cursor() as cursor, cursor.copy("COPY pg_temp.told FROM STDIN") as copy:
        for row in read(path, condition):
            copy.write_row([_text(row, name, kind) for name, kind in types.items()])
    return _copied(connection, "SELECT * FROM pg_temp.told", table, types)


def _text(row: dict[str, Any], name: str, kind: str) -> str | None:
    """After a change of type values are in a column beside, called by the new type (docs/explanation/schema-changes.md)."""
    beside = [key for key in row if key.startswith(f"{name}__")]
    value = row[beside[-1]] if beside else row[name]
    return None if value is None else literal(kind, value)


def _set(connection: psycopg.Connection) -> None:
    for name, value in SETTINGS.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, value])


def _types(connection: psycopg.Connection, table: Table) -> dict[str, str]:
    return dict(connection.execute(_TYPES, [table.sql]).fetchall())


def _copied(connection: psycopg.Connection, query: str, table: Table, types: dict[str, str]) -> Rows:
    """In a key -0 is 0, as PostgreSQL has it."""
    keys = [name in table.keys and ("double" in kind or "real" in kind) for name, kind in types.items()]
    found: Rows = Counter()
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as copy:
        for row in copy.rows():
            found[tuple(_MINUS_ZERO.sub("0", v) if key and v is not None else v for key, v in zip(keys, row, strict=True))] += 1
    return found
