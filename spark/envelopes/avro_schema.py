"""Avro schemas as Python objects: narrowed to what is read, and what their fields mean.

A reader's schema with fewer fields lets Avro skip the rest of each record instead of building it. Logical types are left
out, but for decimals, so that every leaf arrives as the number it is; what the number means is told by `fields`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Wanted = Mapping[str, "Wanted | None"]
"""Fields to keep by name; None keeps all that is below."""
MILLIS = {
    *("io.debezium.time.Timestamp", "io.debezium.time.Time"),
    *("org.apache.kafka.connect.data.Timestamp", "org.apache.kafka.connect.data.Time"),
    *("timestamp-millis", "local-timestamp-millis", "time-millis"),
}
NANOS = {"io.debezium.time.NanoTimestamp", "io.debezium.time.NanoTime", "timestamp-nanos", "local-timestamp-nanos"}
MAX_DIGITS = 38
PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
NAMED = {"record", "enum", "fixed"}


@dataclass
class AvroSchema:
    """A parsed schema with its named types."""

    root: Any
    names: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Definition and enclosing namespace by full name."""

    def __post_init__(self) -> None:
        self._collect(self.root, "")

    def _collect(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for part in schema:
                self._collect(part, space)
        elif isinstance(schema, dict):
            if schema["type"] in NAMED:
                full = _full_name(schema["name"], schema.get("namespace", space))
                space = full.rpartition(".")[0]
                self.names[full] = (schema, space)
            for part in schema.get("fields", ()):
                self._collect(part["type"], space)
            for inner in ("items", "values"):
                if inner in schema:
                    self._collect(schema[inner], space)
            if isinstance(schema["type"], (dict, list)):
                self._collect(schema["type"], space)

    @property
    def text(self) -> str:
        """As JSON, as it was written."""
        return json.dumps(self.root)

    def record(self, *path: str) -> tuple[dict[str, Any], str] | None:
        """The record under these fields, with its namespace; None where there is none."""
        found = self._record(self.root, "")
        for name in path:
            if found is None:
                return None
            inner = next((f["type"] for f in found[0]["fields"] if f["name"] == name), None)
            found = None if inner is None else self._record(inner, found[1])
        return found

    def _record(self, schema: Any, space: str) -> tuple[dict[str, Any], str] | None:
        if isinstance(schema, list):
            return next((found for part in schema if (found := self._record(part, space))), None)
        if isinstance(schema, str):
            named = self.names.get(_full_name(schema, space))
            return None if named is None or named[0]["type"] != "record" else named
        if schema["type"] == "record":
            return schema, _full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
        return None

    def fields(self, *path: str) -> dict[str, str]:
        """What each field of the record under the path is: a primitive's name, `record`, `array`, …, or by its meaning
        `decimal` (of up to 38 digits), `millis` or `nanos`."""
        found = self.record(*path)
        return {} if found is None else {f["name"]: self._kind(f["type"], found[1]) for f in found[0]["fields"]}

    def _kind(self, schema: Any, space: str) -> str:
        if isinstance(schema, list):
            kinds = [self._kind(part, space) for part in schema if part != "null"]
            return kinds[0] if len(kinds) == 1 else "union"
        if isinstance(schema, str):
            named = self.names.get(_full_name(schema, space))
            return schema if named is None else str(named[0]["type"])
        if _is_decimal(schema):
            return "decimal"
        meanings = {schema.get("connect.name"), schema.get("logicalType")}
        if meanings & MILLIS:
            return "millis"
        if meanings & NANOS:
            return "nanos"
        return self._kind(schema["type"], space) if schema["type"] not in NAMED else str(schema["type"])

    def reader_schema(self, wanted: Wanted | None) -> str:
        """The schema with the wanted fields only, as JSON."""
        return json.dumps(self._emit(self.root, "", wanted, set()))

    def _emit(self, schema: Any, space: str, wanted: Wanted | None, seen: set[str]) -> Any:
        if isinstance(schema, list):
            return [self._emit(part, space, wanted, seen) for part in schema]
        if isinstance(schema, str):
            full = _full_name(schema, space)
            if schema in PRIMITIVES or full not in self.names:
                return schema
            return full if full in seen else self._emit(*self.names[full], wanted, seen)
        kind = schema["type"]
        if kind == "bytes" and _is_decimal(schema):
            return {"type": "bytes", "logicalType": "decimal", **{k: schema[k] for k in ("precision", "scale") if k in schema}}
        if kind not in NAMED:
            if kind == "array":
                return {"type": "array", "items": self._emit(schema["items"], space, None, seen)}
            if kind == "map":
                return {"type": "map", "values": self._emit(schema["values"], space, None, seen)}
            return self._emit(kind, space, wanted, seen)
        full = _full_name(schema["name"], schema.get("namespace", space))
        if full in seen:
            return full
        seen.add(full)
        inside, _, short = full.rpartition(".")
        named = {"type": kind, "name": short, "namespace": inside}
        if kind == "enum":
            return {**named, "symbols": schema["symbols"]}
        if kind == "fixed":
            return {**named, "size": schema["size"]}
        kept = [f for f in schema["fields"] if wanted is None or f["name"] in wanted]
        below = {f["name"]: None if wanted is None else wanted[f["name"]] for f in kept}
        return {
            **named,
            "fields": [{"name": f["name"], "type": self._emit(f["type"], inside, below[f["name"]], seen)} for f in kept],
        }


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    known = schema["type"] == "bytes" and schema.get("logicalType") == "decimal"
    return known and int(schema.get("precision", MAX_DIGITS + 1)) <= MAX_DIGITS


def field_of(fields: Mapping[str, Any], column: str) -> str | None:
    """The field of a column: of its own name, or of that which Debezium makes of it for Avro."""
    if column in fields:
        return column
    adjusted = re.sub(r"[^A-Za-z0-9_]", "_", column)
    adjusted = f"_{adjusted}" if adjusted[:1].isdigit() else adjusted
    return adjusted if adjusted in fields else None


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"
