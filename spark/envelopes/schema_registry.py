"""Writer schemas by id from a schema registry with Confluent's REST API (Confluent, Apicurio, Karapace, Redpanda).

An id never changes its meaning, so what was fetched is kept for the life of the process. That an id is unknown may change: a
registry can be restored, or learn of a schema late. That is asked again after UNKNOWN_SECONDS. Asked from the driver only;
executors get the schema in the query.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from spark.errors import SchemaRegistryError

TIMEOUT_SECONDS = 10
UNKNOWN_SECONDS = 30.0
"""Not each record of an id that the registry does not know asks for it."""
_FOUND: dict[tuple[str, int], Any] = {}
_UNKNOWN: dict[tuple[str, int], float] = {}
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def avro_schema(registry: str, schema_id: int) -> Any | None:
    """The parsed schema; None when the registry does not know the id.

    Raises:
        SchemaRegistryError: the registry does not answer, or the id is no self-contained Avro schema.
    """
    asked = (registry, schema_id)
    if asked in _FOUND:
        return _FOUND[asked]
    if time.monotonic() - _UNKNOWN.get(asked, -UNKNOWN_SECONDS) < UNKNOWN_SECONDS:
        return None
    found = _fetch_schema(registry, schema_id)
    if found is None:
        _UNKNOWN[asked] = time.monotonic()
    else:
        _FOUND[asked] = found
    return found


def _fetch_schema(registry: str, schema_id: int) -> Any | None:
    found = _ask(registry, f"/schemas/ids/{schema_id}")
    if found is None:
        return None
    registry, _ = without_login(registry)
    kind = found.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise SchemaRegistryError(f"schema {schema_id} of {registry} is {kind}, this envelope reads AVRO")
    if found.get("references"):
        names = ", ".join(str(r.get("name")) for r in found["references"])
        raise SchemaRegistryError(
            f"schema {schema_id} of {registry} refers to {names}; register it self-contained (Debezium's converter does)"
        )
    return json.loads(found["schema"])


def ask_types(registry: str) -> list[str]:
    """The kinds of schemas that the registry keeps: AVRO, JSON, PROTOBUF.

    Raises:
        SchemaRegistryError: it does not answer, does not take the login, or is none.
    """
    found = _ask(registry, "/schemas/types")
    if not isinstance(found, list):
        shown, _ = without_login(registry)
        raise SchemaRegistryError(
            f"schema registry: {shown} does not answer as Confluent's does: GET /schemas/types finds nothing"
        )
    return [str(each) for each in found]


def _ask(registry: str, path: str) -> Any | None:
    """What it answers; None: it knows no such thing."""
    registry, login = without_login(registry)
    url = f"{registry.rstrip('/')}{path}"
    if urlsplit(url).scheme not in ("http", "https"):
        raise SchemaRegistryError(f"schema registry {registry!r} is not an http(s) address")
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
        raise SchemaRegistryError(f"schema registry: GET {url} answers {error.code} {error.reason}") from error
    except (OSError, ValueError) as error:
        raise SchemaRegistryError(f"schema registry: GET {url}: {error}; is it running and reachable from here?") from error


def without_login(address: str) -> tuple[str, dict[str, str]]:
    """The address as it may be shown, and the header of a login that stood in it (`https://user:password@host`).

    urllib takes no such address: it would say that there is no host of that name, password and all.

    Raises:
        SchemaRegistryError: the login ends before its host, at a character that is not written as %XX; it is not shown.
    """
    parts = urlsplit(address)
    if "@" in address[len(f"{parts.scheme}://{parts.netloc}") :]:
        raise SchemaRegistryError(
            "schema registry: its address has an @ behind the host; write such characters of the login as %XX: / is %2F, "
            "? is %3F, # is %23, @ is %40"
        )
    if parts.username is None and parts.password is None:
        return address, {}
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
