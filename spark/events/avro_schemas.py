"""Avro schemas: fetched by id from a schema registry, and narrowed to what is read.

The registry has Confluent's REST API (Confluent, Apicurio, Karapace, Redpanda). An id never changes its meaning, so what was
fetched is kept for the life of the process. That an id is unknown may change: a registry can be restored, or learn of a schema
late. That is asked again after UNKNOWN_SECONDS. Asked from the driver only; executors get the schema in the query.

A reader's schema with fewer fields lets Avro skip the rest of each record instead of building it. Logical types are left
out, but for decimals, so that every leaf arrives as the number it is; what the number means is told by `fields`.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from spark.errors import EndpointError

TIMEOUT_SECONDS = 10
UNKNOWN_SECONDS = 30.0
"""Not each record of an id that the registry does not know asks for it."""
_FOUND: dict[tuple[str, int], Any] = {}
_UNKNOWN: dict[tuple[str, int], float] = {}
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def avro_schema(registry: str, schema_id: int) -> Any | None:
    """The parsed schema; None when the registry does not know the id.

    Raises:
        EndpointError: the registry does not answer, or the id is no self-contained Avro schema.
    """
    key = (registry, schema_id)
    if key in _FOUND:
        return _FOUND[key]
    if time.monotonic() - _UNKNOWN.get(key, -UNKNOWN_SECONDS) < UNKNOWN_SECONDS:
        return None
    schema = _fetch_schema(registry, schema_id)
    if schema is None:
        _UNKNOWN[key] = time.monotonic()
    else:
        _FOUND[key] = schema
    return schema


def _fetch_schema(registry: str, schema_id: int) -> Any | None:
    answer = _ask(registry, f"/schemas/ids/{schema_id}")
    if answer is None:
        return None
    registry, _ = without_login(registry)
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise EndpointError(f"schema {schema_id} of {registry} is {kind}, this envelope reads AVRO")
    if answer.get("references"):
        names = ", ".join(str(r.get("name")) for r in answer["references"])
        raise EndpointError(
            f"schema {schema_id} of {registry} refers to {names}; register it self-contained (Debezium's converter does)"
        )
    return json.loads(answer["schema"])


def ask_types(registry: str) -> list[str]:
    """The kinds of schemas that the registry keeps: AVRO, JSON, PROTOBUF.

    Raises:
        EndpointError: it does not answer, does not take the login, or is none.
    """
    types = _ask(registry, "/schemas/types")
    if not isinstance(types, list):
        shown, _ = without_login(registry)
        raise EndpointError(f"schema registry: {shown} does not answer as Confluent's does: GET /schemas/types finds nothing")
    return [str(schema_type) for schema_type in types]


def _ask(registry: str, path: str) -> Any | None:
    """What it answers; None: it knows no such thing."""
    registry, login = without_login(registry)
    url = f"{registry.rstrip('/')}{path}"
    if urlsplit(url).scheme not in ("http", "https"):
        raise EndpointError(f"schema registry {registry!r} is not an http(s) address")
    try:
        request = urllib.request.Request(url, headers={"Accept": ACCEPT})
        for name, value in login.items():
            # Another host that a registry points to does not get it.
            request.add_unredirected_header(name, value)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise EndpointError(f"schema registry: GET {url} answers {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise EndpointError(f"schema registry: GET {url}: {error}; is it running and reachable from here?") from error


def without_login(address: str) -> tuple[str, dict[str, str]]:
    """The address as it may be shown, and the header of a login that stood in it (`https://user:password@host`).

    urllib takes no such address: it would say that there is no host of that name, password and all.

    Raises:
        EndpointError: the login ends before its host, at a character that is not written as %XX; it is not shown.
    """
    parts = urlsplit(address)
    if "@" in address[len(f"{parts.scheme}://{parts.netloc}") :]:
        raise EndpointError(
            "schema registry: its address has an @ behind the host; write such characters of the login as %XX: / is %2F, "
            "? is %3F, # is %23, @ is %40"
        )
    if parts.username is None and parts.password is None:
        return address, {}
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}


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
            for branch in schema:
                self._collect(branch, space)
        elif isinstance(schema, dict):
            if schema["type"] in NAMED:
                full = _full_name(schema["name"], schema.get("namespace", space))
                space = full.rpartition(".")[0]
                self.names[full] = (schema, space)
            for field in schema.get("fields", ()):
                self._collect(field["type"], space)
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
        nested = self._record(self.root, "")
        for name in path:
            if nested is None:
                return None
            inner = next((f["type"] for f in nested[0]["fields"] if f["name"] == name), None)
            nested = None if inner is None else self._record(inner, nested[1])
        return nested

    def _record(self, schema: Any, space: str) -> tuple[dict[str, Any], str] | None:
        if isinstance(schema, list):
            return next((branch_record for branch in schema if (branch_record := self._record(branch, space))), None)
        if isinstance(schema, str):
            named = self.names.get(_full_name(schema, space))
            return None if named is None or named[0]["type"] != "record" else named
        if schema["type"] == "record":
            return schema, _full_name(schema["name"], schema.get("namespace", space)).rpartition(".")[0]
        return None

    def fields(self, *path: str) -> dict[str, str]:
        """What each field of the record under the path is: a primitive's name, `record`, `array`, …, or by its meaning
        `decimal` (of up to 38 digits), `millis` or `nanos`."""
        outer = self.record(*path)
        return {} if outer is None else {f["name"]: self._kind(f["type"], outer[1]) for f in outer[0]["fields"]}

    def _kind(self, schema: Any, space: str) -> str:
        if isinstance(schema, list):
            kinds = [self._kind(branch, space) for branch in schema if branch != "null"]
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
            return [self._emit(branch, space, wanted, seen) for branch in schema]
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
    is_decimal = schema["type"] == "bytes" and schema.get("logicalType") == "decimal"
    return is_decimal and int(schema.get("precision", MAX_DIGITS + 1)) <= MAX_DIGITS


def field_of(fields: Mapping[str, Any], column: str) -> str | None:
    """The field of a column: of its own name, or of that which Debezium makes of it for Avro."""
    if column in fields:
        return column
    adjusted = re.sub(r"[^A-Za-z0-9_]", "_", column)
    adjusted = f"_{adjusted}" if adjusted[:1].isdigit() else adjusted
    return adjusted if adjusted in fields else None


def _full_name(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"
