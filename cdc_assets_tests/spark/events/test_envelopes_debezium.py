"""Debezium's JSON forms say the same of the same change: whole, with schemas, flattened, flattened with headers."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.records import Sent, leaves_of
from spark.events.json_records import head_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column('od"d.n\\ame', "text"), Column("n", "numeric(4,1)"), Column("j", "jsonb"))
ROW: dict[str, Any] = {"id": 7, 'od"d.n\\ame': 'x"y', "n": "1.0", "j": {"a": [1, 2.5]}}
OLD: dict[str, Any] = {"id": 7, 'od"d.n\\ame': None, "n": None, "j": None}
TEXTS = {"id": "7", 'od"d.n\\ame': 'x"y', "n": "1.0", "j": '{"a":[1,2.5]}'}
EMPTY = {"id": "7", 'od"d.n\\ame': None, "n": None, "j": None}
SOURCE: dict[str, Any] = {
    "lsn": 77,
    "sequence": '["50","77"]',
    "txId": 12,
    "ts_us": 1700000000123456,
    "ts_ms": 1700000000123,
    "snapshot": "false",
}
SOURCE["snapshot"] = "false"
SNAPSHOT = {**SOURCE, "sequence": '[null,"77"]', "snapshot": "first"}
POSITION = "0000.0000000000000032.1.000000000000004d.{:016x}"
FIRST = "0000.000000000000004d.0.000000000000004d.{:016x}"
TIME = dt.datetime(2023, 11, 14, 22, 13, 20, 123456)
SCHEMA = {"type": "struct", "fields": [{"field": "payload", "type": "string"}, {"field": "op", "type": "string"}]}
EVENTS = [
    ("r", {"op": "r", "before": None, "after": ROW, "source": SNAPSHOT}),
    ("c", {"op": "c", "before": None, "after": ROW, "source": SOURCE}),
    ("u", {"op": "u", "before": OLD, "after": ROW, "source": SOURCE}),
    ("d", {"op": "d", "before": OLD, "after": None, "source": SOURCE}),
]


def flat(event: dict[str, Any], *, qualified: bool) -> dict[str, Any]:
    """What ExtractNewRecordState makes of it with add.fields and delete.tombstone.handling.mode=rewrite."""
    part = "source_" if qualified else ""
    meta = {f"__{'source_' if k.startswith('ts_') else part}{k}": v for k, v in event["source"].items()}
    row, deleted = (event["after"], "false") if event["after"] else (event["before"], "true")
    return {**row, "__deleted": deleted, "__op": event["op"], **meta}


def check(found: list[dict[str, Any]], *, offsets: int = 0) -> None:
    assert [f["unreadable"] for f in found] == [None] * 4
    assert [f["op"] for f in found] == ["r", "c", "u", "d"]
    assert [f["position"] for f in found] == [FIRST.format(offsets)] + [POSITION.format(offsets + i) for i in (1, 2, 3)]
    assert {f["tx_id"] for f in found} == {"12"}
    assert {f["source_ts"] for f in found} == {TIME}
    assert [f["snapshot"] for f in found] == ["first", "false", "false", "false"]
    assert [f["row"] for f in found] == [TEXTS, TEXTS, TEXTS, EMPTY]


def test_whole(session: SparkSession) -> None:
    records = [Sent(value, {"id": 7}) for _, value in EVENTS]
    check(leaves_of(session, ("debezium-json", "postgresql"), COLUMNS, ["id"], records))


def written(schema: object, payload: object) -> str:
    """As the JSON converter writes it, without spaces."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))


def test_with_schemas(session: SparkSession) -> None:
    """In the converter's form, of two schemas, and in others of the same meaning."""
    key, other = {"schema": SCHEMA, "payload": {"id": 7}}, {**SCHEMA, "name": 'a \u20ac,"payload":{"op":'}
    values = [value for _, value in EVENTS]
    texts = [written(SCHEMA, values[0]), written(other, values[1]), json.dumps({"schema": SCHEMA, "payload": values[2]})]
    keys = [written(SCHEMA, {"id": 7}), written(other, {"id": 7}), key, json.dumps({"payload": {"id": 7}, "schema": SCHEMA})]
    told = [*texts, json.dumps({"payload": values[3], "schema": SCHEMA})]
    records = [Sent(text, key) for text, key in zip(told, keys, strict=True)]
    unfit = [Sent('{"payload": null}', "{}"), Sent("[1]", "{}"), Sent("{", "{}"), Sent(values[1], {"id": 7})]
    unfit += [Sent(written(SCHEMA, values[1])[:-2], key), Sent(written(SCHEMA, None), key), Sent(texts[0][:40], key)]
    found = leaves_of(session, ("debezium-json-schema", "postgresql"), COLUMNS, ["id"], [*records, *unfit])
    check(found[:4])
    assert {f["unreadable"] for f in found[4:]} == {"the value is not a Debezium envelope in JSON with its schema"}
    assert {f["position"] for f in found[4:]} == {None}


def test_only_a_whole_schema_is_skipped() -> None:
    text = written(SCHEMA, {"id": 1})
    assert head_of(text.encode()) == text[: text.index('{"id":1}')].encode()
    for other in (text[:30], '{"schema":{},"more":1,"payload":{}}', '{"payload":{}}', "[1]", text.replace(":", ": ")):
        assert head_of(other.encode()) is None
    assert head_of(b"\xff") is None


def test_flattened(session: SparkSession) -> None:
    for qualified in (False, True):
        records = [Sent(flat(value, qualified=qualified), {"id": 7}) for _, value in EVENTS]
        check(leaves_of(session, ("debezium-unwrapped", "postgresql"), COLUMNS, ["id"], records))


def test_flattened_with_schemas(session: SparkSession) -> None:
    records = [
        Sent({"schema": SCHEMA, "payload": flat(value, qualified=True)}, {"schema": SCHEMA, "payload": {"id": 7}})
        for _, value in EVENTS
    ]
    check(leaves_of(session, ("debezium-unwrapped-schema", "postgresql"), COLUMNS, ["id"], records))


def test_flattened_with_headers(session: SparkSession) -> None:
    records = []
    for op, value in EVENTS:
        row = value["after"] or {**value["before"], "__deleted": "true"}
        said = {f"__{k}" if not k.startswith("ts_") else f"__source_{k}": str(v) for k, v in value["source"].items()}
        records.append(Sent(row, {"id": 7}, {"__op": f'"{op}"' if op != "c" else op, **said}))
    check(leaves_of(session, ("debezium-unwrapped", "postgresql"), COLUMNS, ["id"], records))


def test_flattened_without_any_metadata(session: SparkSession) -> None:
    """Positions are offsets, null values are deletes, and every row is the newest of its key so far."""
    records = [Sent(ROW, {"id": 7}), Sent(None, {"id": 7}, {"__op": "d"}), Sent("nonsense", {"id": 7}), Sent(None, {"id": 8})]
    found = leaves_of(session, ("debezium-unwrapped", "topic"), COLUMNS, ["id"], records)
    assert [f["op"] for f in found] == ["u", "d", None, "d"]
    assert [f["position"] for f in found] == ["0000.1." + f"{i:016x}" if i != 2 else None for i in range(4)]
    assert [f["row"]["id"] for f in found] == ["7", "7", "7", "8"]
    unfit = "the value is not a row in JSON, as ExtractNewRecordState writes it"
    assert [f["unreadable"] for f in found] == [None, None, unfit, None]
    unplaced = leaves_of(session, ("debezium-unwrapped", "postgresql"), COLUMNS, ["id"], [Sent(ROW, {"id": 7})])[0]
    assert unplaced["unreadable"] == "the source block has no log position (source.lsn, source.sequence)"
