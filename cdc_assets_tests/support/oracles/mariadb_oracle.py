"""A silver value beside what MariaDB itself says of the row, in SQL, in a session in UTC."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from cdc_assets_tests.support.servers.mariadb_server import MariaDbServer

SHAPES = ("point", "geometry", "linestring", "polygon", "multi")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def asked(kind: str, column: str) -> str:
    """The SQL expression of a column's value as text."""
    if kind.startswith(SHAPES):
        return f"CONCAT(ST_SRID({column}), ' ', HEX(ST_AsWKB({column})))"
    if kind.startswith(BYTES):
        return f"HEX({column})"
    if kind.startswith("bit"):
        return f"BIN({column} + 0)"
    if kind.startswith(("float", "double")):
        return f"CAST({column} + 0e0 AS CHAR)"
    if kind.startswith("decimal"):
        return f"CAST(CAST({column} AS {kind.replace('unsigned', '').replace('zerofill', '')}) AS CHAR)"
    if "zerofill" in kind or kind.startswith("year"):
        return f"CAST({column} + 0 AS CHAR)"
    return f"CONVERT({column} USING utf8mb4)"


def truth(server: MariaDbServer, table: str, kinds: dict[str, str], number: int, column: str) -> str:
    """The database's own text of one value."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {asked(kinds[column], column)} FROM {table} WHERE id = {number}")
        return str(cursor.fetchone()[0])


def same(kind: str, found: Any, wanted: str) -> bool:
    """Whether silver's value, written as MariaDB would, is that text."""
    if found is None:
        return False
    if kind.startswith(("float", "double")):
        return bool(found == float(wanted))
    if kind.startswith("decimal"):
        return Decimal(found) == Decimal(wanted) and "E" not in str(found)
    return _written(kind, found, wanted) == wanted


def _written(kind: str, found: Any, wanted: str) -> str:
    if isinstance(found, dict):
        return f"{found['srid']} {found['wkb'].hex().upper()}"
    if isinstance(found, (bytes, bytearray)):
        return bytes(found).hex().upper()
    if kind.startswith("bit"):
        return (str(int(found)) if isinstance(found, bool) else found).lstrip("0") or "0"
    if isinstance(found, dt.datetime):
        # A zero fraction is written out up to the column's own number of digits.
        return f"{found:%Y-%m-%d %H:%M:%S.%f}".rjust(26, "0")[: len(wanted)] if _whole(found, wanted) else repr(found)
    if isinstance(found, dt.date):
        return found.isoformat()
    if kind.startswith("time"):
        return str(found)[: len(wanted)] if not str(found)[len(wanted) :].strip(".0") else str(found)
    return str(found)


def _whole(found: dt.datetime, wanted: str) -> bool:
    """Whether what is cut off behind the wanted digits is nothing."""
    return not f"{found:%f}"[max(0, len(wanted) - 20) :].strip("0")
