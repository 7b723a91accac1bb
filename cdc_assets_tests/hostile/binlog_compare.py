"""The rows of MariaDB or MySQL beside silver's, by a reader that is not Spark: delta-rs reads silver, the server writes text."""

from __future__ import annotations

import datetime as dt
import struct
from collections import Counter
from decimal import Decimal
from typing import Any

from cdc_assets_tests.hostile.binlog_tables import Column, Table
from cdc_assets_tests.support.lake.delta_reader import Rows, read
from cdc_assets_tests.support.oracles.mariadb_oracle import BYTES, asked
from cdc_assets_tests.support.servers.binlog_server import BinlogServer


def in_source(server: BinlogServer, table: Table) -> Rows:
    """The table's rows, each value as the server writes it, in UTC."""
    listed = ", ".join(asked(c.type, c.sql) for c in table.columns)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {listed} FROM {table.sql}")
        rows = cursor.fetchall()
    return Counter(tuple(_comparable(c, v) for c, v in zip(table.columns, row, strict=True)) for row in rows)


def in_silver(table: Table, path: str, condition: str = "true") -> Rows:
    """Silver's rows, in the same form."""
    return Counter(tuple(_of_silver(row, c) for c in table.columns) for row in read(path, condition))


def _comparable(column: Column, text: str | None) -> str | None:
    """Numbers by their value, times without the zeros that end a fraction."""
    if text is None:
        return None
    if column.type.startswith(("float", "double")):
        # Of zeros a key knows one only.
        return repr(float(text) + 0.0 if column.required else float(text))
    if column.type.startswith("decimal"):
        return _without_zeros(format(Decimal(text), "f"))
    if column.type.startswith(("time", "date")):
        return _without_zeros(text)
    return text


def _of_silver(row: dict[str, Any], column: Column) -> str | None:
    """After a change of type values are in a column beside, called by the new type (docs/explanation/schema-changes.md)."""
    beside = [key for key in row if key.startswith(f"{column.name}__")]
    value = row[beside[-1]] if beside else row[column.name]
    return None if value is None else _comparable(column, _written(column.type, value))


def _written(kind: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['srid']} {value['wkb'].hex().upper()}"
    if isinstance(value, bytes):
        assert kind.startswith(BYTES)
        return value.hex().upper()
    if kind.startswith("bit"):
        return (str(int(value)) if isinstance(value, bool) else str(value)).lstrip("0") or "0"
    if isinstance(value, dt.datetime):
        return f"{value.year:04}-{value:%m-%d %H:%M:%S.%f}"
    if kind.startswith("float"):
        return repr(struct.unpack("f", struct.pack("f", value))[0])
    return str(value)


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
