"""The schema registry of a connector that writes Avro, as its converters name it."""

from __future__ import annotations

import re
from typing import Any

from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.adoption.source_block import secret_reference
from cdc_assets.connectors.record_converters import CONFLUENT
from cdc_assets.errors import AdoptionError
from cdc_assets.stack.avro_converter import CLASS, ITS_BASE

_APICURIO = (CLASS, ITS_BASE)
_OWN_API = re.compile(r"(https?://.+)/apis/registry/v\d+/?")
_FLAT = "ExtractNewRecordState"
_BY_HAND = "declare its topics as a source of kind topics (docs/how-to/add-a-source.md)"
# What makes a record begin with a zero byte and the id, in four bytes, by which Confluent's API knows the schema.
_FRAME = {
    "apicurio.registry.as-confluent": ("true", "false"),
    "apicurio.registry.use-id": ("contentId", "globalId"),
    "apicurio.registry.headers.enabled": ("false", "false"),
}


def registry_block(running: RunningConnector, source: str) -> dict[str, Any]:
    """What the entry has to declare under `capture`; empty where the connector's config names no converter to Avro.

    Raises:
        AdoptionError: its records could not be read here.
    """
    found = running.config.get("value.converter", "")
    if found not in (*_APICURIO, CONFLUENT):
        return {}
    if running.config.get("key.converter") != found:
        raise AdoptionError(f"connector {running.name} writes keys otherwise than rows (key.converter): {_BY_HAND}")
    if any(key.endswith(".type") and value.endswith(_FLAT) for key, value in running.config.items()):
        raise AdoptionError(f"connector {running.name} writes flattened rows ({_FLAT}) in Avro: {_BY_HAND}")
    if found == CONFLUENT:
        return {"converter": "confluent", "schema_registry": _confluent(running, source)}
    return {"converter": "apicurio", "schema_registry": _apicurio(running, source)}


def null_notes(running: RunningConnector) -> list[str]:
    """That their converter writes something else than the row has."""
    config, key = running.config, "value.converter"
    told = config.get(key) == ITS_BASE or (
        config.get(key) == CONFLUENT and config.get(f"{key}.ignore.default.for.nullables", "false") != "true"
    )
    if not told:
        return []
    return [
        "its converter writes the default of a nullable column in place of a NULL, and silver is not the source there: "
        f"cdc adopt {running.name} --ours and cdc apply bring one that does not (docs/how-to/avro.md)"
    ]


def _of(running: RunningConnector, name: str) -> str:
    return running.config.get(f"value.converter.{name}", "")


def _apicurio(running: RunningConnector, source: str) -> dict[str, Any]:
    for name, (wanted, default) in _FRAME.items():
        if (_of(running, name) or default).lower() != wanted.lower():
            raise AdoptionError(
                f"connector {running.name}: value.converter.{name} is {_of(running, name) or 'not set'}: its records do not "
                f"begin with a schema's id as Confluent's do, so they are not read here; it would have to be {wanted}"
            )
    url = _OWN_API.fullmatch(_of(running, "apicurio.registry.url"))
    if url is None:
        told = _of(running, "apicurio.registry.url") or "not set"
        raise AdoptionError(f"connector {running.name}: value.converter.apicurio.registry.url is {told}, and not Apicurio's API")
    block: dict[str, Any] = {"url": f"{url[1]}/apis/ccompat/v7"}
    if user := _of(running, "apicurio.auth.username"):
        block |= {"user": user, "password": secret_reference(f"{source}_registry", _of(running, "apicurio.auth.password"))}
    return block


def _confluent(running: RunningConnector, source: str) -> dict[str, Any]:
    block: dict[str, Any] = {"url": _of(running, "schema.registry.url").split(",")[0]}
    login = _of(running, "basic.auth.user.info")
    if not login:
        return block
    user, colon, password = login.partition(":")
    if not colon or user.startswith("${"):
        raise AdoptionError(
            f"connector {running.name}: value.converter.basic.auth.user.info is one reference for user and password, and an "
            "entry has two; write the entry by hand (docs/how-to/adopt.md)"
        )
    return block | {"user": user, "password": secret_reference(f"{source}_registry", password)}
