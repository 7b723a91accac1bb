"""Records of topics that others fill, as changes of rows: a second reading of the same formats, apart from Spark's.

Values come as JSON texts (numbers with all their digits), NULL as None; a column that a message does not have is left out.
Qlik Replicate: https://help.qlik.com/en-US/replicate/ (message format, columnMask); Debezium: "Data change events".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spark.specs import DEBEZIUM_UNAVAILABLE


class UnreadableRecordError(Exception):
    """The record is no message of its envelope."""


@dataclass(frozen=True)
class Change:
    """What a message says: a row as it is now, that a row is gone, or that the table was emptied."""

    what: Literal["row", "gone", "emptied"]
    values: Mapping[str, Any]


Reader = Callable[[bytes | None, bytes | None, Sequence[str]], list[Change]]


def attunity(key: bytes | None, value: bytes | None, keys: Sequence[str]) -> list[Change]:
    """Qlik Replicate's JSON: an update that changes the key is a row gone and a row."""
    said = _document(value)
    if said.get("magic") != "atMSG":
        raise UnreadableRecordError
    if said.get("type") == "MD":
        return []
    message = said.get("message") or {}
    data: Mapping[str, Any] | None = message.get("data")
    before: Mapping[str, Any] | None = message.get("beforeData")
    headers = message.get("headers") or {}
    operation = headers.get("operation")
    if operation == "DELETE":
        return [Change("gone", before or data or {})]
    if operation not in ("REFRESH", "INSERT", "UPDATE") or not isinstance(data, dict):
        raise UnreadableRecordError
    row = {name: data[name] for name in _present([*data], headers.get("columnMask"))}
    if operation == "UPDATE" and before and any(k in before and before[k] != data.get(k) for k in keys):
        return [Change("gone", before), Change("row", row)]
    return [Change("row", row)]


def _present(names: Sequence[str], mask: str | None) -> Sequence[str]:
    """By the mask's bits, the lowest of the first byte for the first name; where there are as many bits as names, all."""
    if mask is None:
        return names
    raw = bytes.fromhex(mask)
    if sum(bin(byte).count("1") for byte in raw) == len(names):
        return names
    return [name for i, name in enumerate(names) if i // 8 < len(raw) and raw[i // 8] >> i % 8 & 1]


def debezium(key: bytes | None, value: bytes | None, keys: Sequence[str]) -> list[Change]:
    """Debezium's envelope, with or without its schema beside it; a tombstone says nothing that its delete did not."""
    if value is None:
        return []
    said = _document(value)
    said = said["payload"] if "payload" in said and "op" not in said else said
    operation = said.get("op")
    if operation in ("c", "r", "u") and isinstance(said.get("after"), dict):
        return [Change("row", {name: text for name, text in said["after"].items() if text != DEBEZIUM_UNAVAILABLE})]
    if operation == "d":
        named = _document(key) if key else {}
        gone: Mapping[str, Any] = said.get("before") or named.get("payload") or named
        return [Change("gone", gone)]
    if operation == "t":
        return [Change("emptied", {})]
    if operation == "m":
        return []
    raise UnreadableRecordError


def plain(key: bytes | None, value: bytes | None, keys: Sequence[str]) -> list[Change]:
    """An object is a row; without a value, the record's key is gone."""
    if value is None:
        return [Change("gone", _document(key))]
    said = _document(value)
    return [Change("row", said)]


READERS: dict[str, Reader] = {
    "attunity-json": attunity,
    "debezium-json": debezium,
    "debezium-json-schema": debezium,
    "json": plain,
}


def _document(raw: bytes | None) -> dict[str, Any]:
    try:
        # Numbers keep the digits that were sent.
        found = json.loads((raw or b"").decode(), parse_float=str, parse_int=str, parse_constant=str)
    except ValueError as error:
        raise UnreadableRecordError from error
    if not isinstance(found, dict):
        raise UnreadableRecordError
    return found
