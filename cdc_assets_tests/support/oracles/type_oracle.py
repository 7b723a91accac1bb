"""A silver value, asked of PostgreSQL: is it the value that the table has? Its own casts and text form decide."""

from __future__ import annotations

import datetime as dt
import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg


def same(connection: psycopg.Connection, source_type: str, found: Any, wanted: str) -> bool:
    """Whether what silver has, cast by PostgreSQL to the column's type, is what the column's own text says."""
    if found is None:
        return False
    cast = f"SELECT (%s::text)::{source_type}::text".encode()
    row = connection.execute(cast, [literal(source_type, found)]).fetchone()
    return row is not None and row[0] == wanted


def literal(source_type: str, found: Any) -> str:
    """A value of delta-rs as PostgreSQL reads it."""
    if isinstance(found, list):
        element = source_type.removesuffix("[]")
        return "{" + ",".join("NULL" if x is None else _quoted(literal(element, x)) for x in found) + "}"
    if source_type.startswith("bit"):
        return str(int(found)) if isinstance(found, bool) else found
    if source_type == "hstore":
        pairs = json.loads(found).items()
        return ",".join(f"{_quoted(k)}=>{'NULL' if v is None else _quoted(v)}" for k, v in pairs)
    if isinstance(found, dict):
        return _shape(source_type, found)
    if isinstance(found, bytes):
        return "\\x" + found.hex() if source_type == "bytea" else _points(source_type, found)
    if isinstance(found, (dt.date, dt.datetime)):
        return found.isoformat()
    return str(found)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shape(source_type: str, found: dict[str, Any]) -> str:
    if source_type == "path":
        inner = _points("lseg", found["wkb"])[1:-1]
        return f"({inner})" if found["closed"] else f"[{inner}]"
    numbers = [repr(v) for v in found.values()]
    if source_type == "circle":
        return f"<({numbers[0]},{numbers[1]}),{numbers[2]}>"
    return ("({})" if source_type == "point" else "{{{}}}").format(",".join(numbers))


def _points(source_type: str, wkb: bytes) -> str:
    """Points of a line string (2) or of a polygon's one closed ring (3), little-endian."""
    order, kind = struct.unpack_from("<bI", wkb)
    assert order == 1
    at = 5 if kind == 2 else 9
    (count,) = struct.unpack_from("<I", wkb, at)
    flat = struct.unpack_from(f"<{2 * count}d", wkb, at + 4)
    points = [f"({flat[i]!r},{flat[i + 1]!r})" for i in range(0, len(flat), 2)]
    if source_type == "box":
        return f"{points[0]},{points[2]}"
    return f"({','.join(points[:-1])})" if source_type == "polygon" else f"[{','.join(points)}]"
