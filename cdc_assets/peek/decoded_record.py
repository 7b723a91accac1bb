"""A record as its fields: JSON or Avro of a declared table, JSON or text of any other topic; sensitive values as hashes.

What cannot be read of a table with sensitive columns is not shown: its bytes may hold their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from cdc_assets import names
from cdc_assets.peek.topic_place import TopicPlace
from cdc_assets.resources.hidden_values import HiddenValues
from cdc_assets.resources.kafka import Record
from cdc_assets.resources.schema_ledger import ledger_of
from cdc_assets.resources.topic_rows.avro import AvroDocuments
from cdc_assets.resources.topic_rows.messages import UnreadableRecordError
from spark.kinds.envelopes import ENVELOPES

Document = Any
_OPS = ("op", "__op")
_ROWS = ("after", "before", "data", "beforeData")


@dataclass(frozen=True)
class DecodedRecord:
    """One record; `op` is what its envelope says of it, None where that says nothing."""

    place: TopicPlace
    record: Record
    key: Document
    value: Document
    headers: Mapping[str, Document]

    @property
    def op(self) -> str | None:
        """c, u, d, r or t by Debezium, Qlik's own words, `tombstone`."""
        if self.record.value is None:
            return "tombstone"
        value = self.value if isinstance(self.value, dict) else {}
        told = [*(value.get(name) for name in _OPS), _part(_part(value, "message"), "headers").get("operation")]
        return next((str(word) for word in told if word), None)

    @property
    def row(self) -> Document:
        """The row that the record is about, where its envelope has one; else all of it."""
        value = self.value if isinstance(self.value, dict) else {}
        inner = _part(value, "message") or value
        return next((inner[name] for name in _ROWS if isinstance(inner.get(name), dict)), self.value)

    @property
    def time(self) -> str:
        """When Kafka was given it, in UTC."""
        return datetime.fromtimestamp(self.record.timestamp / 1000, timezone.utc).isoformat(timespec="milliseconds")

    def to_json(self) -> dict[str, Any]:
        """For programs: the record whole."""
        where = {"topic": self.place.topic, "cluster": self.place.cluster}
        at = {"partition": self.record.partition, "offset": self.record.offset, "timestamp": self.time}
        return {**where, **at, "op": self.op, "key": self.key, "value": self.value, "headers": dict(self.headers)}


@dataclass
class Decoder:
    """Of one topic; `lake` is the lake's root, whose tables know the earlier names of columns."""

    place: TopicPlace
    lake: str
    show_sensitive: bool = False
    values: HiddenValues = field(default_factory=HiddenValues)

    def __post_init__(self) -> None:
        self._sensitive = frozenset() if self.show_sensitive else _names_of_sensitive(self.place, self.lake)
        self._read = _reader(self.place)

    @property
    def sensitive(self) -> list[str]:
        """The names of fields that are hidden."""
        return sorted(self._sensitive)

    def decode(self, record: Record) -> DecodedRecord:
        """The record's key, value and headers, as they are shown."""
        headers = {name: self._hide(_text(value), whole=True) for name, value in record.headers}
        return DecodedRecord(self.place, record, self._document(record.key), self._document(record.value), headers)

    def key_fields(self, record: Record) -> Document:
        """The key as it is, to be searched for."""
        return _below_payload(self._read(record.key)) if record.key is not None else None

    def _document(self, raw: bytes | None) -> Document:
        if raw is None:
            return None
        found = _below_payload(self._read(raw))
        return self._hide(found, whole=not isinstance(found, (dict, list)))

    def _hide(self, found: Document, *, whole: bool = False) -> Document:
        """`whole`: nothing says which part of it is whose, so it is hidden where anything of the table is."""
        if not self._sensitive or found is None:
            return found
        if whole:
            return self.values.hide(found)
        if isinstance(found, dict):
            return {
                name: self.values.hide(_canonical(value)) if name in self._sensitive else self._hide(value)
                for name, value in found.items()
            }
        return [self._hide(each) for each in found] if isinstance(found, list) else found


def _part(found: dict[str, Any], name: str) -> dict[str, Any]:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _names_of_sensitive(place: TopicPlace, lake: str) -> frozenset[str]:
    """In the lake, in events, and before a rename, declared or noticed."""
    if place.source is None or place.table is None:
        return frozenset()
    found = set(place.table.sensitive)
    for old, new in place.table.renamed.items():
        found |= {old} if new in found else set()
    ledger = ledger_of(names.silver_path(lake, place.source, place.table)) if found else None
    for column in ledger.columns if ledger else ():
        if column.name in found:
            found |= {column.event_field, *column.formerly}
    return frozenset({*found, *map(_in_avro, found)})


def _in_avro(name: str) -> str:
    """As Debezium writes the column's name where names hold letters, digits and _ only."""
    return re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))


def _reader(place: TopicPlace) -> Callable[[bytes], Document]:
    registry = _registry_of(place)
    if registry is None:
        return _json_or_text
    documents, columns = AvroDocuments(registry), [*getattr(place.table, "columns", ())]

    def read_avro(raw: bytes) -> Document:
        try:
            return documents(raw, columns)
        except UnreadableRecordError:
            return _text(raw)

    return read_avro


def _registry_of(place: TopicPlace) -> str | None:
    """Where the schemas of its records are; None: they are not in Avro."""
    if place.source is None:
        return None
    # What a connector says of itself is in the form of its tables.
    form = place.source.record_form(place.table or place.source.tables[0])
    return form["schema_registry"] if ENVELOPES[form["envelope"]].in_avro else None


def _json_or_text(raw: bytes) -> Document:
    try:
        found = json.loads(raw.decode(), parse_float=Decimal)
        # Brackets that can be read, and not be written or searched again.
        json.dumps(found, default=str)
    except (ValueError, RecursionError):
        return _text(raw)
    return found


def _text(raw: bytes | None) -> str | None:
    """Bytes that are no UTF-8 are escaped."""
    return None if raw is None else raw.decode(errors="backslashreplace")


def _below_payload(found: Document) -> Document:
    """What stands beside its schema."""
    return found["payload"] if isinstance(found, dict) and set(found) == {"schema", "payload"} else found


def _canonical(value: Document) -> str | None:
    """One text for one value, however it was sent."""
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)
