"""What a connector of ours writes is read alike in JSON, with its schema beside it, and in Avro."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_assets.capture.connectors.debezium_signals import Notification
from cdc_assets.capture.incarnations.postgresql_incarnation import place
from cdc_assets.chain.table_reload import count_snapshot_rows
from cdc_assets.clients.connector_events import event_reader, read_json_event
from cdc_assets.clients.kafka import Record
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.avro import framed, registry

TEXT = ["null", "string"]
ORIGIN = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "snapshot", "type": TEXT}, {"name": "sequence", "type": TEXT}, {"name": "lsn", "type": ["null", "long"]}],
}
EVENT = {
    "type": "record",
    "name": "Envelope",
    "fields": [{"name": "op", "type": "string"}, {"name": "source", "type": ORIGIN}],
}
SAID = {
    "type": "record",
    "name": "Notification",
    "fields": [
        *({"name": name, "type": "string"} for name in ("id", "aggregate_type", "type")),
        {"name": "additional_data", "type": ["null", {"type": "map", "values": "string"}]},
    ],
}


def source_at(url: str) -> Source:
    database = {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    capture = {"envelope": "debezium-avro", "converter": "confluent", "schema_registry": url}
    return Source.model_validate(
        {"source": "shop", "database": database, "capture": capture, "tables": [{"name": "public.orders"}]}
    )


def event(op: str, snapshot: str, sequence: list[str]) -> dict[str, Any]:
    return {"op": op, "source": {"snapshot": snapshot, "sequence": json.dumps(sequence), "lsn": 7}}


def test_an_event_is_the_same_in_every_form() -> None:
    with registry() as kept:
        number, read = kept.register("t-value", EVENT), event_reader(source_at(kept.url))
        streamed, row = event("u", "false", ["100", "200"]), event("r", "last", ["100", "100"])
        for form in (streamed, {"schema": {}, "payload": streamed}):
            assert read(json.dumps(form).encode()) == streamed, "records of before are in the topic"
        raw = framed(number, EVENT, streamed)
        assert read(raw)["source"] == {**streamed["source"], "lsn": "7"}
        assert place(raw, read) == place(json.dumps(streamed).encode()) == (100, 200)
        assert count_snapshot_rows([raw, framed(number, EVENT, row), None, b"\0\0\0\0\x63x"], read) == 1
        assert read(None) == {}


def test_a_notification_is_the_same_in_avro() -> None:
    data = {"scanned_collection": "public.orders", "total_rows_scanned": "42", "status": "SUCCEEDED"}
    said = {"id": "again-1", "aggregate_type": "Incremental Snapshot", "type": "TABLE_SCAN_COMPLETED", "additional_data": data}
    with registry() as kept:
        raw = framed(kept.register("n-value", SAID), SAID, said)
        found = Notification.of(Record(0, 0, 5, None, raw, ()), event_reader(source_at(kept.url)))
    assert found == Notification.of(Record(0, 0, 5, None, json.dumps(said).encode(), ()))
    assert (found.table, found.rows, found.is_table_again) == ("public.orders", 42, True)


def test_what_is_no_event_is_told() -> None:
    with registry() as kept:
        read = event_reader(source_at(kept.url))
        with pytest.raises(ValueError, match="no record of a schema that the registry knows"):
            read(b"\0\0\0\0\x63x")
        kept.broken = True
        with pytest.raises(DatabaseError, match="answers 500"):
            read(b"\0\0\0\0\x64x")
    with pytest.raises(ValueError, match="no fields"):
        read_json_event(b"[1]")
