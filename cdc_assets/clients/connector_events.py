"""What the records of a connector of ours say, in JSON or in Avro: its tables' topics, its markers, its notifications.

Both forms are read of any source that declares a registry: its topics may hold records of a time before. Avro lies behind a
zero byte and its schema's id, and is decoded in plain Python by the writer's schema
(https://avro.apache.org/docs/1.12.0/specification/#binary-encoding). What a number means is told by its logical type, or by the
name that Kafka Connect gave it (`connect.name`). Leaves come as the texts that Debezium's JSON would have: times in
microseconds, decimals as digits, bytes in base64. Floating numbers stay numbers, since their texts differ by language.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from cdc_assets.clients.topic_messages import UnreadableRecordError
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import BaseSource

_MILLIS = re.compile(r"io\.debezium\.time\.(Timestamp|Time)|org\.apache\.kafka\.connect\.data\.(Timestamp|Time)|.*-millis")
_NANOS = re.compile(r"io\.debezium\.time\.Nano(Timestamp|Time)|.*-nanos")
_ROWS, _HEAD = ("before", "after"), 5
_EXACT = Context(prec=60)
MAX_DIGITS = 38
"""Of a decimal; longer ones come as their bytes."""


@dataclass
class _Bytes:
    """What is left of a record."""

    raw: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        """The next so many bytes."""
        if count < 0 or self.at + count > len(self.raw):
            raise UnreadableRecordError
        self.at += count
        return self.raw[self.at - count : self.at]

    def long(self) -> int:
        """Zigzag, seven bits a byte, the lowest first."""
        number, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)

    def index(self) -> int:
        """Of a branch or a symbol."""
        if (number := self.long()) < 0:
            raise UnreadableRecordError
        return number

    def read_sized(self) -> bytes:
        """As many bytes as are told before them."""
        return self.take(self.long())

    def text(self) -> str:
        """The next string: its size, then UTF-8."""
        return self.read_sized().decode()

    def items(self) -> Iterator[int]:
        """One for each item of an array or map: blocks up to an empty one; of a negative count the size in bytes follows."""
        while count := self.long():
            if count < 0:
                self.long()
            yield from range(abs(count))


Decode = Callable[[_Bytes], Any]


class AvroDocuments:
    """Keys and values of topics whose schemas lie in one registry."""

    def __init__(self, registry: str) -> None:
        self._registry = registry
        self._known: dict[int, Decode] = {}

    def __call__(self, raw: bytes | None, columns: Sequence[str]) -> dict[str, Any]:
        """The fields of a record, those of rows under their columns' names.
        Raises UnreadableRecordError: it is no record in Avro of a schema that the registry knows; DatabaseError: the registry
        does not answer."""
        if raw is None or len(raw) <= _HEAD or raw[0] != 0:
            raise UnreadableRecordError
        decode = self._decoder(int.from_bytes(raw[1:_HEAD], "big"))
        try:
            document = decode(_Bytes(raw, _HEAD))
        except (ValueError, IndexError, ArithmeticError, RecursionError) as error:
            raise UnreadableRecordError from error
        if not isinstance(document, dict):
            raise UnreadableRecordError
        return _restore_names(
            {k: _restore_names(v, columns) if k in _ROWS and isinstance(v, dict) else v for k, v in document.items()}, columns
        )

    def _decoder(self, number: int) -> Decode:
        from spark.errors import EndpointError
        from spark.events.avro_schemas import avro_schema

        if number not in self._known:
            try:
                schema = avro_schema(self._registry, number)
            except EndpointError as error:
                raise DatabaseError(str(error)) from error
            if schema is None:
                raise UnreadableRecordError
            self._known[number] = _Schema().decoder(schema, "")
        return self._known[number]


def _restore_names(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Avro's names hold letters, digits and _ only: Debezium puts _ for others, and before a digit."""
    own = dict(row)
    for column in columns:
        if column not in row:
            adjusted = re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", column))
            own.update({column: row[adjusted]} if adjusted in row else {})
    return own


class _Schema:
    """A schema as functions; named types may be used before, or within, their own definition's end."""

    def __init__(self) -> None:
        self._named: dict[str, Decode] = {}

    def decoder(self, schema: Any, space: str) -> Decode:
        """Of a part of it, within a namespace."""
        if isinstance(schema, list):
            branches = [self.decoder(branch, space) for branch in schema]
            return lambda left: branches[left.index()](left)
        if isinstance(schema, str):
            full = schema if "." in schema or not space else f"{space}.{schema}"
            return _PLAIN[schema] if schema in _PLAIN else lambda left: self._named[full](left)
        kind = schema["type"]
        if kind in ("record", "enum", "fixed"):
            return self._of_name(schema, space)
        if kind == "array":
            item = self.decoder(schema["items"], space)
            return lambda left: [item(left) for _ in left.items()]
        if kind == "map":
            worth = self.decoder(schema["values"], space)
            return lambda left: {left.text(): worth(left) for _ in left.items()}
        meanings = [str(schema[k]) for k in ("connect.name", "logicalType") if k in schema]
        if kind == "bytes" and "decimal" in meanings and int(schema.get("precision", MAX_DIGITS + 1)) <= MAX_DIGITS:
            scale = int(schema.get("scale", 0))
            return lambda left: f"{Decimal(int.from_bytes(left.read_sized(), 'big', signed=True)).scaleb(-scale, _EXACT):f}"
        inner = self.decoder(kind, space)
        if kind in ("int", "long") and any(_MILLIS.fullmatch(m) for m in meanings):
            return lambda left: str(left.long() * 1000)
        if kind in ("int", "long") and any(_NANOS.fullmatch(m) for m in meanings):
            return lambda left: _micros(left.long())
        return inner

    def _of_name(self, schema: Any, space: str) -> Decode:
        name, space = schema["name"], schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        if schema["type"] == "enum":
            self._named[full] = lambda left: schema["symbols"][left.index()]
        elif schema["type"] == "fixed":
            self._named[full] = lambda left: base64.b64encode(left.take(schema["size"])).decode()
        else:
            fields = [(field["name"], self.decoder(field["type"], full.rpartition(".")[0])) for field in schema["fields"]]
            self._named[full] = lambda left: {name: decode(left) for name, decode in fields}
        return self._named[full]


def _micros(nanos: int) -> str:
    """What is finer than a microsecond fits no column: no number, so that nobody cuts it."""
    return str(nanos // 1000) if nanos % 1000 == 0 else f"{nanos}ns"


_PLAIN: dict[str, Decode] = {
    "null": lambda left: None,
    "boolean": lambda left: left.take(1) == b"\x01",
    "int": lambda left: str(left.long()),
    "long": lambda left: str(left.long()),
    "float": lambda left: struct.unpack("<f", left.take(4))[0],
    "double": lambda left: struct.unpack("<d", left.take(8))[0],
    "bytes": lambda left: base64.b64encode(left.read_sized()).decode(),
    "string": lambda left: left.text(),
}


_AVRO = b"\0"
ReadEvent = Callable[[bytes | None], dict[str, Any]]
"""A record's value, or its key, as its fields; empty where it has none. In Avro numbers come as their digits; JSON has them as
numbers. ValueError: it is no event."""


def read_json_event(raw: bytes | None) -> dict[str, Any]:
    """Of a connector that writes JSON, with its schema beside it or without. Raises ValueError: it is no JSON object."""
    if raw is None:
        return {}
    document = json.loads(raw)
    fields = document.get("payload", document) if isinstance(document, dict) else document
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise ValueError(f"no fields: {raw[:80]!r}")
    return fields


def event_reader(source: BaseSource, columns: Sequence[str] = ()) -> ReadEvent:
    """For the source's topics; `columns` of a table come under their own names.
    Raises MissingAddressError, MissingSecretError: its registry cannot be named. The reader raises DatabaseError where the
    registry does not answer."""
    captured = source.captured
    if captured is None or captured.capture.schema_registry is None:
        return read_json_event
    documents = AvroDocuments(captured.capture.schema_registry.address)

    def read(raw: bytes | None) -> dict[str, Any]:
        if raw is None or not raw.startswith(_AVRO):
            return read_json_event(raw)
        try:
            return documents(raw, columns)
        except UnreadableRecordError as error:
            raise ValueError(f"no record of a schema that the registry knows: {raw[:16]!r}") from error

    return read
