"""A small schema registry (Confluent's REST API) and an Avro writer for tests, from the specifications alone."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPE = "application/vnd.schemaregistry.v1+json"


class Registry:
    """Subjects and ids; equal schemas share one id."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.broken = False
        self.url = ""

    def register(self, subject: str, schema: Any) -> int:
        text = json.dumps(schema)
        if text not in self.schemas:
            self.schemas.append(text)
        number = self.schemas.index(text) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, path: str) -> tuple[int, Any]:
        if self.broken:
            return 500, {"error_code": 50001, "message": "Error in the backend datastore"}
        parts = path.strip("/").split("/")
        if parts == ["schemas", "types"]:
            return 200, ["JSON", "AVRO"]
        if parts[:2] == ["schemas", "ids"] and parts[2].isdigit() and 0 < int(parts[2]) <= len(self.schemas):
            return 200, {"schema": self.schemas[int(parts[2]) - 1]}
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def registry() -> Iterator[Registry]:
    """A running registry on a free port."""
    kept = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept.asked.append(self.path)
            status, body = kept.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kept
    finally:
        server.shutdown()


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """The wire format: a zero byte, the id, the record."""
    return b"\x00" + struct.pack(">I", schema_id) + written(schema, value, _records(schema))


def _records(schema: Any) -> dict[str, Any]:
    """The named records of a schema."""
    if isinstance(schema, list):
        return {name: found for part in schema for name, found in _records(part).items()}
    if not isinstance(schema, dict):
        return {}
    below = [part for field in schema.get("fields", ()) for part in _records(field["type"]).items()]
    return {**dict(below), **({schema["name"]: schema} if schema["type"] == "record" else {})}


def written(schema: Any, value: Any, names: dict[str, Any]) -> bytes:
    """Avro's binary encoding; a union takes the first branch that fits, null first for None."""
    if isinstance(schema, list):
        branch = next(i for i, part in enumerate(schema) if (part == "null") == (value is None))
        return _long(branch) + written(schema[branch], value, names)
    if isinstance(schema, str) and schema in names:
        return written(names[schema], value, names)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return b"".join(written(field["type"], value.get(field["name"]), names) for field in schema["fields"])
    if kind == "array":
        items = b"".join(written(schema["items"], item, names) for item in value)
        return (_long(len(value)) + items if value else b"") + _long(0)
    if kind == "map":
        items = b"".join(written("string", k, names) + written(schema["values"], v, names) for k, v in value.items())
        return (_long(len(value)) + items if value else b"") + _long(0)
    if kind == "enum":
        return _long(schema["symbols"].index(value))
    if kind in ("string", "bytes"):
        raw = value.encode() if isinstance(value, str) else value
        return _long(len(raw)) + raw
    if kind in ("int", "long"):
        return _long(value)
    return {"null": lambda: b"", "boolean": lambda: bytes([value]), "double": lambda: struct.pack("<d", value)}[kind]()


def _long(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
