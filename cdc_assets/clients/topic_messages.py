"""Records of topics that others fill, as changes of rows: a second reading of the same formats, apart from Spark's.

Values come as JSON texts (numbers with all their digits), NULL as None. Qlik Replicate: https://help.qlik.com/en-US/replicate/
(message format, columnMask); Debezium: "Data change events", "New record state extraction".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, NoReturn

from cdc_assets.clients.kafka import Record
from spark.record_formats import DEBEZIUM_UNAVAILABLE

# "Not changed by this update" of a text, and of bytes (spark.silver.typed_changes has the forms that were seen).
_UNCHANGED = (DEBEZIUM_UNAVAILABLE, base64.b64encode(DEBEZIUM_UNAVAILABLE.encode()).decode())
_NO_CHARACTER = "\uffff"


class UnreadableRecordError(Exception):
    """The record is no message of its envelope."""


@dataclass(frozen=True)
class Told:
    """What must be known of a table to read its records: `documents` reads keys and values that are not JSON, in which a
    column may have another name."""

    keys: Sequence[str]
    columns: Sequence[str] = ()
    connector: str = "topic"
    documents: Callable[[bytes | None, Sequence[str]], dict[str, Any]] | None = None

    def document(self, raw: bytes | None) -> dict[str, Any]:
        """A key, or a value, as its fields. Raises UnreadableRecordError: it has none."""
        return _json(raw) if self.documents is None else self.documents(raw, self.columns)


@dataclass(frozen=True)
class RowChange:
    """What a message says: a row as it is now, that a row is gone, or that the table was emptied.

    `kept` are the columns without a value here which are as they were; None: all of these. The others are NULL.
    """

    what: Literal["row", "gone", "emptied"]
    values: Mapping[str, Any]
    kept: frozenset[str] | None = frozenset()


Reader = Callable[[Record, Told], list[RowChange]]


def attunity(record: Record, told: Told) -> list[RowChange]:
    """Qlik Replicate's JSON: an update that changes the key is a row gone and a row."""
    document = _json(record.value)
    if document.get("magic") != "atMSG":
        raise UnreadableRecordError
    if document.get("type") == "MD":
        return []
    message = document.get("message") or {}
    data: Mapping[str, Any] | None = message.get("data")
    before: Mapping[str, Any] | None = message.get("beforeData")
    headers = message.get("headers") or {}
    operation = headers.get("operation")
    if operation == "DELETE":
        return [RowChange("gone", before or data or {})]
    if operation not in ("REFRESH", "INSERT", "UPDATE") or not isinstance(data, dict):
        raise UnreadableRecordError
    row = RowChange("row", {name: data[name] for name in _present([*data], headers.get("columnMask"))}, None)
    if operation == "UPDATE" and before and any(k in before and before[k] != data.get(k) for k in told.keys):
        return [RowChange("gone", before), row]
    return [row]


def _present(names: Sequence[str], mask: str | None) -> Sequence[str]:
    """By the mask's bits, the lowest of the first byte for the first name; where there are as many bits as names, all."""
    if mask is None:
        return names
    raw = bytes.fromhex(mask)
    if sum(bin(byte).count("1") for byte in raw) == len(names):
        return names
    return [name for i, name in enumerate(names) if i // 8 < len(raw) and raw[i // 8] >> i % 8 & 1]


def debezium(record: Record, told: Told) -> list[RowChange]:
    """Debezium's envelope, with or without its schema beside it; a tombstone says nothing that its delete did not."""
    if record.value is None:
        return []
    document = told.document(record.value)
    document = document["payload"] if "payload" in document and "op" not in document else document
    operation = document.get("op")
    if operation in ("c", "r", "u") and isinstance(document.get("after"), dict):
        return [_row(document["after"])]
    if operation == "d":
        named = told.document(record.key) if record.key else {}
        gone: Mapping[str, Any] = document.get("before") or named.get("payload") or named
        return [RowChange("gone", gone)]
    return _rowless(operation)


def read_flat(record: Record, told: Told) -> list[RowChange]:
    """A row of ExtractNewRecordState; what it was is told by `__op` and `__deleted`, in the row or in headers.

    Without a value a key is gone where positions are offsets; elsewhere it is the tombstone behind a row with `__deleted`.
    """
    if record.value is None:
        return [RowChange("gone", told.document(record.key))] if told.connector == "topic" else []
    return _read_flat(record, told, told.document(record.value), lambda key: told.document(key))


def read_flat_under_payload(record: Record, told: Told) -> list[RowChange]:
    """The same with the schema beside the row."""

    def below(raw: bytes | None) -> dict[str, Any]:
        payload = _json(raw).get("payload")
        if not isinstance(payload, dict):
            raise UnreadableRecordError
        return payload

    if record.value is None:
        return [RowChange("gone", below(record.key))] if told.connector == "topic" else []
    return _read_flat(record, told, below(record.value), below)


def _read_flat(
    record: Record, told: Told, row: Mapping[str, Any], of_key: Callable[[bytes | None], Mapping[str, Any]]
) -> list[RowChange]:
    headers = {name: value.decode().strip('"') for name, value in record.headers if value is not None}
    operation = row.get("__op") or headers.get("__op") or "u"
    if row.get("__deleted") in ("true", True) or operation == "d":
        return [RowChange("gone", of_key(record.key) if record.key else row)]
    return [_row(row)] if operation in ("c", "r", "u") else _rowless(operation)


def _row(values: Mapping[str, Any]) -> RowChange:
    kept = frozenset(name for name, text in values.items() if isinstance(text, str) and text in _UNCHANGED)
    return RowChange("row", {name: text for name, text in values.items() if name not in kept}, kept)


def _rowless(operation: object) -> list[RowChange]:
    if operation == "t":
        return [RowChange("emptied", {})]
    if operation == "m":
        return []
    raise UnreadableRecordError


def plain(record: Record, told: Told) -> list[RowChange]:
    """An object is a row; without a value, the record's key is gone."""
    if record.value is None:
        return [RowChange("gone", told.document(record.key))]
    return [RowChange("row", told.document(record.value))]


def read_text(record: Record, told: Told) -> list[RowChange]:
    """A text is a row, with whatever else the record has; without a value, its key is gone."""
    headers = [{"key": name, "value": None if raw is None else _utf8(raw)} for name, raw in record.headers]
    at = datetime.fromtimestamp(record.timestamp / 1000, timezone.utc)
    row = {
        **{"value": _utf8(record.value), "key": _utf8(record.key), "time": at.isoformat(), "headers": json.dumps(headers)},
        **{"partition": str(record.partition), "offset": str(record.offset)},
    }
    return [RowChange("gone" if record.value is None else "row", row)]


def _utf8(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableRecordError from error


READERS: dict[str, Reader] = {
    "attunity-json": attunity,
    "debezium-json": debezium,
    "debezium-json-schema": debezium,
    "debezium-unwrapped": read_flat,
    "debezium-unwrapped-schema": read_flat_under_payload,
    "debezium-avro": debezium,
    "debezium-unwrapped-avro": read_flat,
    "json": plain,
    "text": read_text,
    "avro": plain,
}


def _json(raw: bytes | None) -> dict[str, Any]:
    try:
        # Numbers keep the digits that were sent.
        fields = json.loads((raw or b"").decode(), parse_float=str, parse_int=str, parse_constant=_refuse)
        may_be_no_text = raw is not None and (b"\\u" in raw or _NO_CHARACTER.encode() in raw)
        # As silver does (spark.events.json_records): half a surrogate pair cannot be encoded.
        if may_be_no_text and _NO_CHARACTER.encode() in json.dumps(fields, ensure_ascii=False).encode():
            raise ValueError(_NO_CHARACTER)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecordError from error
    if not isinstance(fields, dict):
        raise UnreadableRecordError
    return fields


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
