"""An event in Avro with a column of each of its types, its schemas, and its row's texts."""

from __future__ import annotations

from typing import Any

from spark.specs import Column

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "big", "type": ["null", "long"], "default": None},
    {"name": "ratio", "type": ["null", "double"], "default": None},
    {"name": "ok", "type": {"type": "boolean", "connect.default": False}, "default": False},
    {"name": "raw", "type": ["null", "bytes"], "default": None},
    {"name": "od_d_name", "type": ["null", "string"], "default": None},
    {
        "name": "day",
        "type": ["null", {"type": "int", "logicalType": "date", "connect.name": "org.apache.kafka.connect.data.Date"}],
    },
    {"name": "ms", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp"}]},
    {"name": "ns", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"}]},
    {"name": "fine", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"}]},
    {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
    {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
    {"name": "h", "type": ["null", {"type": "map", "values": ["null", "string"]}]},
    {"name": "at", "type": ["null", {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]}]},
]

COLUMNS = [Column("od-d.name" if f["name"] == "od_d_name" else f["name"], "text") for f in FIELDS]

SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "snapshot", "type": [{"type": "string", "connect.version": 1}, "null"], "default": "false"},
        {"name": "sequence", "type": ["null", "string"], "default": None},
        {"name": "ts_us", "type": ["null", "long"], "default": None},
        {"name": "txId", "type": ["null", "long"], "default": None},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}


def envelope(fields: list[dict[str, Any]]) -> dict[str, Any]:
    value = {"type": "record", "name": "Value", "fields": fields}
    block = {"type": "record", "name": "block", "namespace": "event", "fields": [{"name": "id", "type": "string"}]}
    parts = [
        {"name": "before", "type": ["null", value], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "transaction", "type": ["null", block], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    return {"type": "record", "name": "Envelope", "namespace": "core.shop.public.t", "fields": parts}


KEY = {"type": "record", "name": "Key", "namespace": "core.shop.public.t", "fields": [FIELDS[0]]}

OLD, NEW = envelope(FIELDS[:4]), envelope(FIELDS)

FROM = {
    "version": "3.7",
    "ts_ms": 1,
    "snapshot": "false",
    "sequence": '["50","77"]',
    "ts_us": 1700000000123456,
    "txId": 12,
    "lsn": 77,
}

ROW: dict[str, Any] = {
    **{"id": 7, "big": -(2**40), "ratio": 1e10, "ok": True, "raw": b"\x00\xff", "od_d_name": "São", "day": 19782},
    **{"ms": -1, "ns": 5_000, "fine": 5_001, "price": b"\xff\x00", "tags": ["a", None], "h": {"k": None}, "at": {"x": 1.5}},
}

TEXTS = {
    **{"id": "7", "big": "-1099511627776", "ratio": "1.0E10", "ok": "true", "raw": "AP8=", "od-d.name": "São", "day": "19782"},
    **{"ms": "-1000", "ns": "5", "fine": "5001ns", "price": "-2.56", "tags": '["a",null]', "h": '{"k":null}', "at": '{"x":1.5}'},
}


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": FROM}
