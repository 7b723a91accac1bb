"""Debezium in Avro: several writers' schemas in one batch, unknown ids, and the same texts as JSON has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.avro import Registry, framed, registry
from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.lake.records import Sent, kafka, leaves_of
from cdc_assets_tests.support.values.avro_events import COLUMNS, FIELDS, KEY, NEW, OLD, ROW, TEXTS, event
from spark.bronze import append_job as bronze
from spark.errors import EndpointError, JobRefusedError
from spark.events.avro_schemas import AvroSchema
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, Column, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORM = ("debezium-avro", "postgresql")


POSITION = "0000.0000000000000032.1.000000000000004d."


@pytest.fixture
def kept() -> Iterator[Registry]:
    with registry() as found:
        yield found


def test_several_schemas_in_one_batch(session: SparkSession, kept: Registry) -> None:
    key, old, new = kept.register("t-key", KEY), kept.register("t-value", OLD), kept.register("t-value", NEW)
    small = {k: ROW[k] for k in ("id", "big", "ratio", "ok")}
    records = [
        (framed(old, OLD, event("c", None, small)), framed(key, KEY, {"id": 7})),
        (framed(new, NEW, event("u", {**ROW, "id": 7, "big": 1}, ROW)), framed(key, KEY, {"id": 7})),
        (framed(new, NEW, event("d", ROW, None)), framed(key, KEY, {"id": 7})),
        (None, framed(key, KEY, {"id": 7})),
        (framed(99, NEW, event("c", None, ROW)), None),
        (b"{}", None),
        (framed(new, NEW, event("c", None, ROW))[:20], None),
        (framed(new, NEW, event("c", None, ROW)), None),
    ]
    sent = [Sent(value, row_key) for value, row_key in records]
    found = leaves_of(session, FORM, COLUMNS, ["id"], sent, registry=kept.url)
    assert [f["op"] for f in found] == ["c", "u", "d", None, None, None, None, "c"]
    assert [f["unreadable"] is None for f in found] == [True] * 3 + [False] * 4 + [True]
    assert {f["position"][:-16] for f in found if f["op"]} == {POSITION}
    assert {(f["tx_id"], f["snapshot"], f["source_ts"].microsecond) for f in found if f["op"]} == {("12", "false", 123456)}
    assert found[1]["row"] == found[7]["row"] == TEXTS
    assert found[0]["row"] == {c.name: TEXTS[c.name] if i < 4 else None for i, c in enumerate(COLUMNS)}
    assert found[2]["row"]["id"] == "7"
    assert sorted(set(kept.asked)) == sorted(kept.asked) == [f"/schemas/ids/{i}" for i in (1, 2, 3, 99)]


@pytest.mark.all
def test_a_new_schema_is_noticed(session: SparkSession, kept: Registry, tmp_path: Path) -> None:
    """Bronze's commits say which schemas occur, so that nobody looks for them again; one that is new is seen all the same."""
    key, old, new = kept.register("t-key", KEY), kept.register("t-value", OLD), kept.register("t-value", NEW)
    small = {k: ROW[k] for k in ("id", "big", "ratio", "ok")}
    sent = [(old, OLD, event("c", None, small)), (new, NEW, event("u", None, ROW)), (old, OLD, event("d", small, None))]
    spec = SilverSpec(
        "s", "t", str(tmp_path / "bronze"), str(tmp_path / "silver"), tuple(COLUMNS), ("id",), schema_registry=kept.url
    )
    spec = replace(spec, envelope=FORM[0], connector=FORM[1])
    for offset, value in enumerate(sent):
        record = Sent(framed(*value), framed(key, KEY, {"id": 7}), offset=offset)
        topic = TopicRange("t", "t", "id", 0, {0: (offset, offset + 1)}, *FORM, schema_registry=kept.url)
        asked = BronzeSpec(spec.bronze_path, "none", (topic,), str(offset))
        done = bronze.append(session, asked, lambda _, record=record: kafka(session, {"t": [record]}))  # type: ignore[misc]
        assert done.by_op == {"cud"[offset]: 1}
        assert committed(spec.bronze_path).topics["t"].schema_ids == {"key": [key], "value": [old, new][: offset + 1]}
        if offset == 1:
            silver.run(session, spec)
            assert [row["big"] for row in values(spec.path)] == [TEXTS["big"]]
    silver.run(session, spec)
    assert values(spec.path) == []


def test_flattened(session: SparkSession, kept: Registry) -> None:
    marks: list[dict[str, Any]] = [
        {"name": f"__{n}", "type": ["null", "string"]} for n in ("op", "deleted", "sequence", "snapshot")
    ]
    marks += [{"name": f"__{n}", "type": ["null", "long"]} for n in ("source_lsn", "txId", "source_ts_us")]
    flat = {"type": "record", "name": "Value", "fields": [*FIELDS, *marks]}
    small = {**flat, "fields": [*FIELDS[:4], *marks]}
    first, second, key = kept.register("f-value", flat), kept.register("f-value", small), kept.register("t-key", KEY)
    said = {
        "__sequence": '["50","77"]',
        "__snapshot": "false",
        "__source_lsn": 77,
        "__txId": 12,
        "__source_ts_us": 1700000000123456,
    }
    update, delete = {**ROW, **said, "__op": "u"}, {**ROW, **said, "__op": "d", "__deleted": "true"}
    sent = [
        Sent(framed(first, flat, update), framed(key, KEY, {"id": 7})),
        Sent(framed(second, small, update), framed(key, KEY, {"id": 7})),
        Sent(framed(first, flat, delete), framed(key, KEY, {"id": 7})),
        Sent(framed(77, flat, update), None),
        Sent(framed(first, flat, update)[:9], None),
    ]
    found = leaves_of(session, ("debezium-unwrapped-avro", "postgresql"), COLUMNS, ["id"], sent, registry=kept.url)
    assert [f["unreadable"] is None for f in found] == [True] * 3 + [False] * 2
    assert [f["op"] for f in found[:3]] == ["u", "u", "d"]
    assert {(f["position"][:-16], f["tx_id"], f["snapshot"]) for f in found[:3]} == {(POSITION, "12", "false")}
    assert found[0]["row"] == TEXTS
    assert found[1]["row"] == {c.name: TEXTS[c.name] if i < 4 else None for i, c in enumerate(COLUMNS)}
    assert found[2]["row"]["id"] == "7"


def test_rows_and_events(session: SparkSession, kept: Registry) -> None:
    reading = {"type": "record", "name": "Reading", "fields": FIELDS[:3]}
    row = kept.register("readings-value", reading)
    sent = [Sent(framed(row, reading, ROW)), Sent(None), Sent(b"x")]
    found = leaves_of(session, ("avro", "topic"), COLUMNS[:4], [], sent, registry=kept.url)
    assert found[0]["row"] == {"id": "7", "big": "-1099511627776", "ratio": "1.0E10", "ok": None}
    assert [f["op"] for f in found] == ["c", "d", "c"]
    unfit = "the value is not an Avro record with a schema that the registry knows"
    assert (found[0]["unreadable"], found[2]["unreadable"]) == (None, unfit)

    fields = [{"name": n, "type": "string"} for n in ("ID", "Source", "Type")]
    event_of = {"type": "record", "name": "Event", "fields": [*fields, {"name": "Data", "type": reading}]}
    number = kept.register("events-value", event_of)
    value = {"ID": "e-1", "Source": "shop", "Type": "order", "Data": ROW}
    columns = [Column("ID", "text"), Column("type", "text"), Column("big", "bigint")]
    found = leaves_of(session, ("event-avro", "topic"), columns, [], [Sent(framed(number, event_of, value))], registry=kept.url)
    assert found[0]["row"] == {"ID": "e-1", "type": "order", "big": "-1099511627776"}


def test_a_registry_that_fails_stops_the_job(session: SparkSession, kept: Registry) -> None:
    records = [Sent(framed(1, OLD, event("d", None, None)), None)]
    kept.broken = True
    with pytest.raises(EndpointError, match="/schemas/ids/1 answers 500"):
        leaves_of(session, FORM, COLUMNS, ["id"], records, registry=kept.url)
    with pytest.raises(JobRefusedError, match="needs the address of a schema registry"):
        leaves_of(session, FORM, COLUMNS, ["id"], records)


def test_schemas_are_narrowed_to_what_is_read() -> None:
    found = AvroSchema(NEW).reader_schema({"op": None, "after": {"id": None, "day": None}, "before": {"id": None, "day": None}})
    value = {"type": "record", "name": "Value", "namespace": "core.shop.public.t"}
    kept = [{"name": "id", "type": "int"}, {"name": "day", "type": ["null", "int"]}]
    assert json.loads(found) == {
        **{"type": "record", "name": "Envelope", "namespace": "core.shop.public.t"},
        "fields": [
            {"name": "before", "type": ["null", {**value, "fields": kept}]},
            {"name": "after", "type": ["null", "core.shop.public.t.Value"]},
            {"name": "op", "type": "string"},
        ],
    }
