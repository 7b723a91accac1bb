"""A topic as `cdc peek` shows it: on which cluster it is, whose records it holds, and each record as its fields.

Records of a declared table are JSON or Avro, those of any other topic JSON or text. Sensitive values are shown as hashes.
A record of a table with sensitive columns that cannot be read is not shown: its bytes may hold their values.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from cdc_assets.clients.connector_events import AvroDocuments
from cdc_assets.clients.kafka import KafkaCluster, Record
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.schema_ledger import ledger_of
from cdc_assets.clients.topic_messages import UnreadableRecordError
from cdc_assets.registry import names, settings
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.record_formats import ENVELOPES


@dataclass(frozen=True)
class TopicPlace:
    """A topic of one of the clusters; of a declared table also whose, and of what a connector says of itself the source."""

    topic: str
    cluster: str
    source: BaseSource | None = None
    table: Table | None = None

    def open(self, platform: Platform) -> KafkaCluster:
        """The client of its cluster."""
        return platform.lake_kafka() if self.cluster == names.LAKE else platform.core_kafka(self.cluster)


def places_of_tables(sources: Iterable[BaseSource]) -> Iterator[TopicPlace]:
    """The topics of all tables: those of the core first, where a copy has the same name."""
    copies = []
    for source in sources:
        for table in source.tables:
            if names.is_mirrored(source):
                yield TopicPlace(names.topic(source, table), source.cluster, source, table)
            copies.append(TopicPlace(names.lake_topic(source, table), names.LAKE, source, table))
    yield from copies


def find_topic(platform: Platform, sources: Sequence[BaseSource], topic: str, *, cluster: str | None = None) -> TopicPlace:
    """The topic, wherever it is; `cluster` says where to look.
    Raises ServiceError: no cluster has it; the declared ones whose names are near are in the text."""
    places = [*places_of_tables(sources)]
    clusters = [cluster] if cluster else [*settings.core_clusters("BOOTSTRAP"), names.LAKE]
    candidates = [candidate for candidate in places if candidate.topic == topic and candidate.cluster in clusters]
    of_connectors = ((s, (names.notification_topic(s), names.marker_topic(s))) for s in sources if s.captured)
    source = next((source for source, topics in of_connectors if topic in topics), None)
    others = [name for name in clusters if name not in {candidate.cluster for candidate in candidates}]
    candidates += [TopicPlace(topic, name, source) for name in others]
    for candidate in candidates:
        if candidate.open(platform).existing([topic]):
            return candidate
    near = difflib.get_close_matches(topic, dict.fromkeys(candidate.topic for candidate in places), n=5, cutoff=0.5)
    near_text = f"; near: {', '.join(near)}" if near else ""
    raise ServiceError(f"topic {topic} is not on {' or '.join(clusters)}{near_text}; cdc get topics lists those of the tables")


def matches_key(wanted: str, found: Any) -> bool:
    """Whether a decoded key is the one; numbers and texts of one writing are the same."""
    if not isinstance(found, dict):
        return _key_text(found) == wanted
    fields = {name: _key_text(value) for name, value in found.items()}
    if wanted.startswith("{"):
        try:
            key = json.loads(wanted, parse_float=Decimal)
        except ValueError:
            return False
        return all(name in fields and fields[name] == _key_text(value) for name, value in key.items())
    name, sign, value = wanted.partition("=")
    if sign and name in fields:
        return fields[name] == value
    return [*fields.values()] == [wanted]


def _key_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


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
        operations = [*(value.get(name) for name in _OPS), _part(_part(value, "message"), "headers").get("operation")]
        return next((str(word) for word in operations if word), None)

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
    """Decodes the records of one topic; `lake` is the lake's root, whose tables know the earlier names of columns."""

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
        document = _below_payload(self._read(raw))
        return self._hide(document, whole=not isinstance(document, (dict, list)))

    def _hide(self, found: Document, *, whole: bool = False) -> Document:
        # `whole`: nothing says which part of it is whose, so it is hidden where anything of the table is.
        if not self._sensitive or found is None:
            return found
        if whole:
            return self.values.hide(found)
        if isinstance(found, dict):
            return {
                name: self._hide_field(value) if name in self._sensitive else self._hide(value) for name, value in found.items()
            }
        return [self._hide(item) for item in found] if isinstance(found, list) else found

    def _hide_field(self, value: Document) -> str | None:
        # One text for one value, in whichever order its keys were sent: equal values have equal hashes.
        is_text = value is None or isinstance(value, str)
        return self.values.hide(value if is_text else json.dumps(value, default=str, sort_keys=True))


def _part(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _names_of_sensitive(place: TopicPlace, lake: str) -> frozenset[str]:
    # A column may have another name in events, and before a rename that was declared or noticed.
    if place.source is None or place.table is None:
        return frozenset()
    columns = set(place.table.sensitive)
    for old, new in place.table.renamed.items():
        columns |= {old} if new in columns else set()
    ledger = ledger_of(names.silver_path(lake, place.source, place.table)) if columns else None
    for column in ledger.columns if ledger else ():
        if column.name in columns:
            columns |= {column.event_field, *column.formerly}
    # In Avro a name holds letters, digits and _ only: so Debezium writes the others as _, and one before a digit.
    in_avro = (re.sub(r"^(?=\d)", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)) for name in columns)
    return frozenset({*columns, *in_avro})


def _reader(place: TopicPlace) -> Callable[[bytes], Document]:
    registry = _registry_of(place)
    if registry is None:
        return _json_or_text
    documents, columns = AvroDocuments(registry), [*(place.table.declared_columns if place.table else ())]

    def read_avro(raw: bytes) -> Document:
        try:
            return documents(raw, columns)
        except UnreadableRecordError:
            return _text(raw)

    return read_avro


def _registry_of(place: TopicPlace) -> str | None:
    if place.source is None:
        return None
    # What a connector says of itself is in the form of its tables.
    form = place.source.record_form(place.table or place.source.tables[0])
    return form["schema_registry"] if ENVELOPES[form["envelope"]].in_avro else None


def _json_or_text(raw: bytes) -> Document:
    try:
        document = json.loads(raw.decode(), parse_float=Decimal)
        # Brackets that can be read, and not be written or searched again.
        json.dumps(document, default=str)
    except (ValueError, RecursionError):
        return _text(raw)
    return document


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="backslashreplace")


def _below_payload(found: Document) -> Document:
    return found["payload"] if isinstance(found, dict) and set(found) == {"schema", "payload"} else found
