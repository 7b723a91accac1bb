"""A topic's rows, folded in plain Python: what messages of each form say, and what becomes of a key, as lists say it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.clients import topic_rows
from cdc_assets.clients.connector_events import AvroDocuments
from cdc_assets.clients.databases.row_pages import RowForm
from cdc_assets.clients.kafka import Record, TopicState
from cdc_assets.clients.topic_messages import READERS, RowChange, Told, UnreadableRecordError
from cdc_assets.clients.topic_rows import TopicFold, reader, value
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.table_declaration import TopicTable
from cdc_assets_tests.support.lake.avro import framed, registry
from cdc_assets_tests.support.values.avro_events import COLUMNS as AVRO_COLUMNS
from cdc_assets_tests.support.values.avro_events import KEY, NEW, OLD, ROW, TEXTS, event
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

COLUMNS = {"id": "integer not null", "v": "text", "n": "numeric(9,2)"}


def attunity(operation: str, data: Any, before: Any = None, **headers: Any) -> bytes:
    said = {"headers": {"operation": operation, **headers}, "data": data, "beforeData": before}
    return json.dumps({"magic": "atMSG", "type": "DT", "message": said}).encode()


def debezium(op: str, after: Any, before: Any = None) -> bytes:
    return json.dumps({"op": op, "after": after, "before": before}).encode()


def said(envelope: str, key: bytes | None, value: bytes | None, *headers: tuple[str, bytes], **more: Any) -> list[RowChange]:
    return READERS[envelope](Record(0, 0, 0, key, value, headers), Told(["id"], **more))


class Topic:
    """A topic in memory; `begin` is what retention has left."""

    bootstrap = "none"

    def __init__(self) -> None:
        self.log: dict[int, list[Record]] = {0: [], 1: []}
        self.begin = {0: 0, 1: 0}

    def put(self, value: bytes | None, key: bytes | None = None, partition: int = 0, at: int | None = None) -> None:
        offset = len(self.log[partition])
        self.log[partition].append(Record(partition, offset, offset if at is None else at, key, value, ()))

    def states(self, topics: Any) -> dict[str, TopicState]:
        return {topics[0]: TopicState(topics[0], "id", {p: (self.begin[p], len(log)) for p, log in self.log.items()})}

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]], *, deadline: float) -> Iterator[Record]:
        for partition, (start, end) in ranges.items():
            yield from self.log[partition][start:end]


def folded(topic: Topic, envelope: str, part: Any = (0, 1), **more: Any) -> TopicFold:
    declared = {"name": "t", "topic": "t", "envelope": envelope, "keys": ["id"], "columns": COLUMNS, **more}
    table = TopicTable.model_validate({**declared, **({"connector": "mysql"} if envelope.startswith("debezium") else {})})
    columns = tuple(Column(n, t.removesuffix(" not null"), not t.endswith("null")) for n, t in table.columns.items())
    made = TopicFold(topic, "t", table, part, RowForm(RowText(SilverSpec("s", "t", "-", "-", columns, ("id",)))))  # type: ignore[arg-type]
    made.advance()
    return made


def test_what_messages_say() -> None:
    row = {"id": "1", "v": "a", "n": "1.50"}
    replicate = "attunity-json"
    assert said(replicate, None, b'{"magic": "atMSG", "type": "MD"}') == []
    sent = attunity("REFRESH", {"id": 1, "v": "a", "n": 1.50}).replace(b"1.5", b"1.50")
    assert said(replicate, None, sent) == [RowChange("row", row, None)]
    moved = said(replicate, None, attunity("UPDATE", {**row, "id": 2}, row))
    assert moved == [RowChange("gone", row), RowChange("row", {**row, "id": "2"}, None)]
    masked = attunity("UPDATE", row, columnMask="05")
    assert said(replicate, None, masked) == [RowChange("row", {"id": "1", "n": "1.50"}, None)]
    assert said(replicate, None, attunity("DELETE", None, row)) == [RowChange("gone", row)]
    for wrong in (b"x", b"[]", b'{"magic": "no"}', attunity("UPSERT", row), None):
        with pytest.raises(UnreadableRecordError):
            said(replicate, None, wrong)
    gone = said("debezium-json-schema", b'{"payload": {"id": 1}}', b'{"schema": {}, "payload": {"op": "d"}}')
    assert gone == [RowChange("gone", {"id": "1"})]
    for unchanged in ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="):
        part = RowChange("row", {"id": "1"}, frozenset("v"))
        assert said("debezium-json", None, debezium("u", {"id": 1, "v": unchanged})) == [part]
    assert [said("debezium-json", None, debezium(op, None)) for op in "tm"] == [[RowChange("emptied", {})], []]
    assert said("json", b'{"id": 1}', None) == [RowChange("gone", {"id": "1"})]


def test_what_flattened_rows_say() -> None:
    flat, below = "debezium-unwrapped", "debezium-unwrapped-schema"
    key = b'{"id": 1}'
    assert said(flat, key, b'{"id": 1, "v": "a"}') == [RowChange("row", {"id": "1", "v": "a"})]
    assert said(flat, key, b'{"id": 1, "v": "a"}', ("__op", b'"d"')) == [RowChange("gone", {"id": "1"})]
    assert said(flat, None, b'{"id": 1, "v": null, "__deleted": "true"}')[0].what == "gone"
    assert said(flat, key, b'{"id": 2, "__op": "u", "__deleted": "false"}', ("__op", b"d"))[0].what == "row"
    wrapped = b'{"schema": {}, "payload": {"id": 1}}'
    assert said(below, wrapped, b'{"schema": {}, "payload": {"id": 1, "__op": "c"}}')[0].values["id"] == "1"
    assert said(below, wrapped, b'{"schema": {}, "payload": {"id": 1, "__op": "d"}}') == [RowChange("gone", {"id": "1"})]
    for name, record_key in ((flat, key), (below, wrapped)):
        assert said(name, record_key, None) == [RowChange("gone", {"id": "1"})]
        assert said(name, record_key, None, connector="postgresql") == []
    for name, wrong in ((flat, b"[]"), (flat, b'{"id": 1, "__op": "x"}'), (below, b'{"id": 1}')):
        with pytest.raises(UnreadableRecordError):
            said(name, key, wrong)


def test_what_avro_says() -> None:
    """The same texts as Spark makes of these records, but for nested values, which are not compared."""
    with registry() as kept:
        key, old, new = kept.register("k", KEY), kept.register("v", OLD), kept.register("v", NEW)
        documents = AvroDocuments(kept.url)

        def avro(raw: bytes | None, raw_key: bytes | None = None, envelope: str = "debezium-avro") -> list[RowChange]:
            return said(envelope, raw_key, raw, documents=documents, columns=[c.name for c in AVRO_COLUMNS])

        (changed,) = avro(framed(new, NEW, event("u", None, ROW)))
        leaves = {c.name: changed.values[c.name] for c in AVRO_COLUMNS if c.name not in ("tags", "h", "at")}
        assert {name: str(leaf).replace("True", "true") for name, leaf in leaves.items()} == {
            **{name: TEXTS[name] for name in leaves},
            "ratio": "10000000000.0",
        }
        assert (changed.values["tags"], changed.values["h"], changed.values["at"]) == (["a", None], {"k": None}, {"x": 1.5})
        (before,) = avro(framed(old, OLD, event("c", None, {k: ROW[k] for k in ("id", "big", "ratio", "ok")})))
        assert set(before.values) == {"id", "big", "ratio", "ok"}
        raw_key = framed(key, KEY, {"id": 7})
        assert avro(framed(new, NEW, event("d", None, None)), raw_key) == [RowChange("gone", {"id": "7"})]
        assert avro(None, raw_key) == []
        assert avro(None, raw_key, "avro") == [RowChange("gone", {"id": "7"})]
        whole = framed(new, NEW, event("c", None, ROW))
        for wrong in (b"{}", framed(99, NEW, event("c", None, ROW)), *(whole[:n] for n in (0, 5, 6, 20, len(whole) - 40))):
            with pytest.raises(UnreadableRecordError):
                avro(wrong)
        kept.broken = True
        with pytest.raises(DatabaseError, match="answers 500"):
            avro(framed(50, NEW, event("c", None, ROW)))


def test_the_newest_record_of_a_key_is_its_row() -> None:
    topic = Topic()
    for sent in (
        debezium("r", {"id": 1, "v": "a", "n": "1.5"}),
        debezium("c", {"id": 2, "v": "b", "n": None}),
        debezium("u", {"id": 1, "v": "__debezium_unavailable_value", "n": "2.5"}),
        debezium("d", None, {"id": 2}),
        None,
        b"poison",
    ):
        topic.put(sent)
    found = folded(topic, "debezium-json")
    assert found.rows() == {"1;": (1, "a", Decimal("2.5"))}
    assert (found.complete, found.knows_all, found.knows("9;"), found.unreadable) == (True, True, True, 1)
    topic.put(debezium("t", None))
    topic.put(debezium("c", {"id": 3, "v": "c", "n": "0"}))
    found.advance()
    assert found.rows() == {"3;": (3, "c", Decimal(0))}
    kept = folded(topic, "debezium-json", truncate="ignore")
    assert set(kept.rows()) == {"1;", "3;"}


def test_what_retention_has_removed_is_not_spoken_of() -> None:
    topic = Topic()
    for number in range(4):
        topic.put(debezium("c", {"id": number, "v": "a", "n": "1"}))
    topic.put(debezium("u", {"id": 0, "v": "__debezium_unavailable_value", "n": "2"}))
    topic.put(debezium("d", None, {"id": 3}))
    topic.begin[0] = 2
    found = folded(topic, "debezium-json")
    assert not found.knows_all
    assert [found.knows(f"{n};") for n in (0, 1, 2, 3, 9)] == [False, False, True, True, False]
    assert set(found.rows()) == {"2;"}
    topic.put(debezium("u", {"id": 0, "v": "b", "n": "3"}))
    found.advance()
    assert found.rows()["0;"] == (0, "b", Decimal(3))
    topic.begin[0] = 8
    topic.put(debezium("d", None, {"id": 0}))
    topic.put(debezium("d", None, {"id": 2}))
    with pytest.raises(DatabaseError, match="retention removed records while they were read"):
        found.advance()


def test_a_value_that_does_not_fit_leaves_its_key_undecided() -> None:
    topic = Topic()
    topic.put(debezium("c", {"id": 1, "v": "a", "n": "1"}))
    topic.put(debezium("u", {"id": 1, "v": "a", "n": "many"}))
    topic.put(debezium("c", {"id": "x", "v": "a", "n": "1"}))
    found = folded(topic, "debezium-json")
    assert (found.rows(), found.knows("1;"), found.knows_all, found.unreadable) == ({}, False, False, 1)


def test_partitions_are_told_apart_by_time() -> None:
    topic = Topic()
    topic.put(attunity("UPDATE", {"id": 2, "v": "moved", "n": 1}, {"id": 1}), at=20)
    topic.put(attunity("INSERT", {"id": 1, "v": "first", "n": 1}), partition=1, at=10)
    topic.put(attunity("INSERT", {"id": 4, "v": "x", "n": 1}), partition=1, at=11)
    assert set(folded(topic, "attunity-json").rows()) == {"2;", "4;"}


def test_shares_hold_their_keys_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    for number in range(30):
        topic.put(json.dumps({"id": number, "v": "a"}).encode(), b"{}")
    parts = [set(folded(topic, "json", (part, 3)).rows()) for part in range(3)]
    assert sorted(key for part in parts for key in part) == sorted(f"{n};" for n in range(30))
    assert folded(topic, "json").rows()["3;"] == (3, "a", None)
    monkeypatch.setattr(topic_rows, "MAX_KEYS", 10)
    with pytest.raises(DatabaseError, match="compare a share at a time"):
        folded(topic, "json")


@pytest.mark.parametrize(
    ("kind", "modes", "written", "text", "wanted"),
    [
        ("integer", "", True, "7", 7),
        ("boolean", "", True, True, True),
        ("numeric(9,2)", "decimal=precise", False, "AJY=", Decimal("1.50")),
        ("date", "", False, "1", dt.date(1970, 1, 2)),
        ("date", "", True, "2024-02-29", dt.date(2024, 2, 29)),
        ("timestamp(3) without time zone", "temporal=adaptive", False, "1500", dt.datetime(1970, 1, 1, 0, 0, 1, 500000)),
        ("timestamp without time zone", "", True, "2024-02-29T12:00:00.5", dt.datetime(2024, 2, 29, 12, 0, 0, 500000)),
        ("timestamp without time zone", "temporal=nanoseconds", False, "1000", dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("time without time zone", "", False, "3600000000", dt.timedelta(hours=1)),
        (
            "timestamp with time zone",
            "",
            False,
            "2024-01-01T01:00:00.25+01:00",
            dt.datetime(2024, 1, 1, 0, 0, 0, 250000, dt.timezone.utc),
        ),
        ("bytea", "", False, "AP8=", b"\x00\xff"),
    ],
)
def test_values(kind: str, modes: str, written: bool, text: Any, wanted: Any) -> None:
    read = reader(kind, modes, written=written)
    assert read is not None
    assert value(read, text) == wanted
    assert value(read, None) is None
    if kind not in ("boolean",):
        with pytest.raises(UnreadableRecordError):
            value(read, "no such value?")


def test_types_without_a_reading() -> None:
    assert [reader(k, "", written=True) for k in ("jsonb", "text[]", "interval", "numeric")] == [None] * 4
