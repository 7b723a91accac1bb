"""Debezium's MongoDB events: full documents, partial updates, pre-images, typed ids. Shapes from Debezium's documentation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.records import Sent, leaves_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORM = ("debezium-mongodb", "mongodb")
COLUMNS = (Column("_id", "text", False), Column("name", "text"), Column("n", "bigint"), Column("tags", "jsonb"))
SOURCE = {"connector": "mongodb", "ts_ms": 1700000000000, "snapshot": "false", "ord": 31, "rs": "rs0", "collection": "c"}
OID = {"$oid": "596e275826f08b2730779e1f"}
POSITION = "0000.0000018bcfe56800.0000001f.1."
DOCUMENT = {"_id": OID, "name": 'Anne "K"', "n": {"$numberLong": "9007199254740993"}, "tags": ["a", {"b": 1}]}
TEXTS = {"_id": OID["$oid"], "name": 'Anne "K"', "n": "9007199254740993", "tags": '["a",{"b":1}]'}


def sent(op: str, key: Any, **parts: Any) -> Sent:
    value = {"op": op, "source": SOURCE, **{k: v if k == "updateDescription" else json.dumps(v) for k, v in parts.items()}}
    return Sent(value, {"id": json.dumps(key)})


def described(set_: Any = None, removed: Any = None, cut: Any = None) -> dict[str, Any]:
    return {"updatedFields": json.dumps(set_ or {}), "removedFields": removed, "truncatedArrays": cut}


def test_documents(session: SparkSession) -> None:
    found = leaves_of(
        session,
        FORM,
        COLUMNS,
        ["_id"],
        [
            sent("c", OID, after=DOCUMENT),
            sent("u", OID, before={"_id": OID}, after=DOCUMENT, updateDescription=described({"n": 1})),
            sent("d", OID, before=DOCUMENT),
            sent("d", "1004"),
            sent("c", 'a"b', after={"_id": 'a"b'}),
        ],
    )
    assert [f["unreadable"] for f in found] == [None] * 5
    assert [f["op"] for f in found] == ["c", "u", "d", "d", "c"]
    assert [f["row"] for f in found[:2]] == [TEXTS, TEXTS]
    assert [f["row"]["_id"] for f in found] == [OID["$oid"]] * 3 + ["1004", 'a"b']
    assert [f["present"] for f in found] == [None] * 5
    assert {f["position"][:-16] for f in found} == {POSITION}


def test_a_date_is_a_moment_in_milliseconds(session: SparkSession) -> None:
    """Of whatever type the column is declared; as text it stays what it is."""
    types = {
        "with": "timestamp(3) with time zone",
        "without": "timestamp(3) without time zone",
        "day": "date",
        "part": "date",
        "n": "bigint",
    }
    columns = (Column("_id", "text", False), *(Column(name, type_) for name, type_ in types.items()))
    moment, midnight = {"$date": 1700000000123}, {"$date": -86400000}
    document = {"_id": OID, "with": moment, "without": moment, "day": midnight, "part": moment, "n": moment}
    (found,) = leaves_of(session, FORM, columns, ["_id"], [sent("c", OID, after=document)])
    assert found["row"] == {
        "_id": OID["$oid"],
        "with": "2023-11-14T22:13:20.123Z",
        "without": "1700000000123000",
        "day": "-1",
        "part": "the number 1700000000123",
        "n": "1700000000123",
    }


def test_partial_updates(session: SparkSession) -> None:
    found = leaves_of(
        session,
        FORM,
        COLUMNS,
        ["_id"],
        [
            sent("u", OID, updateDescription=described({"n": {"$numberLong": "5"}}, ["name"])),
            sent("u", OID, updateDescription=described({"tags.0": "x"})),
            sent("u", OID, updateDescription=described({}, ["tags.b"])),
            sent("u", OID, updateDescription=described({}, None, [{"field": "tags", "newSize": 1}])),
            Sent("[]", {"id": "1"}),
        ],
    )
    assert found[0]["row"] == {"_id": OID["$oid"], "name": None, "n": "5", "tags": None}
    assert found[0]["present"] == [True, True, True, False]
    assert [f["unreadable"] and f["unreadable"][:32] for f in found] == [
        None,
        *["the update changes the inside of"] * 3,
        "the value is not a Debezium enve",
    ]


def test_doubles_that_are_no_numbers(session: SparkSession) -> None:
    """As the connector 3.6.1 writes them: bare names inside the document, which no JSON has."""
    columns = (Column("_id", "text", False), Column("d", "double precision"), Column("t", "text"))
    given = [("NaN", '"NaN"'), ("Infinity", '"Infinity"'), ("-Infinity", '"-Infinity"'), ("-0.0", '"-0.0"'), ("1.0E300", '""')]
    events = [Sent({"op": "c", "source": SOURCE, "after": f'{{"_id": 1,"d": {d},"t": {t}}}'}, {"id": '"1"'}) for d, t in given]
    found = [f["row"] for f in leaves_of(session, FORM, columns, ["_id"], events)]
    assert [(row["d"], row["t"]) for row in found] == [(d, json.loads(t)) for d, t in given]


def test_ids_of_several_types(session: SparkSession) -> None:
    """Two documents are two rows: 1 and "1", an ObjectId and its text, null; as text a number is refused."""
    ids = ["1", '"1"', '{"$oid": "596e275826f08b2730779e1f"}', '"596e275826f08b2730779e1f"', "null", '"null"', "true", "1.5"]
    ids += ['{"$binary": {"base64": "YWI=","subType": "04"}}', '{"a": 1,"b": "x"}', '{"b": "x","a": 1}']
    events = [Sent({"op": "d", "source": SOURCE, "before": None}, {"id": id_}) for id_ in ids]
    as_json = leaves_of(session, FORM, (Column("_id", "jsonb", False),), ["_id"], events)
    assert [f["row"]["_id"] for f in as_json] == ids
    as_text = leaves_of(session, FORM, (Column("_id", "text", False),), ["_id"], events)
    refused = [id_ for id_, f in zip(ids, as_text, strict=True) if f["unreadable"]]
    assert refused == ["1", "true", "1.5"]
    assert "declare it jsonb" in as_text[0]["unreadable"]
    (found,) = leaves_of(session, FORM, (Column("_id", "bigint"),), ["_id"], [events[4]])
    assert (found["row"]["_id"], found["unreadable"]) == (None, None)


def test_a_field_of_several_types(session: SparkSession) -> None:
    """As jsonb it is what the connector wrote, so that "1" is not 1; a number as text is the text."""
    columns = (Column("_id", "text", False), Column("v", "jsonb"), Column("t", "text"))
    written = [
        '"1"',
        "1",
        '{"$numberLong":"1"}',
        "2.0",
        "NaN",
        '"a\\"b"',
        "null",
        '{"$date":1709208000123}',
        '[1,"2",null]',
        "true",
    ]
    events = [
        Sent({"op": "c", "source": SOURCE, "after": f'{{"_id": 1,"v": {v},"t": {v}}}'}, {"id": f'"{i}"'})
        for i, v in enumerate(written)
    ]
    events.append(sent("u", "x", updateDescription=described({"v": "1"})))
    found = [f["row"] for f in leaves_of(session, FORM, columns, ["_id"], events)]
    assert [row["v"] for row in found] == [{"NaN": '"NaN"', "null": None}.get(v, v) for v in written] + ['"1"']
    assert [row["t"] for row in found[:3]] == ["1", "1", "1"]


def test_names_with_dots_and_dollars(session: SparkSession) -> None:
    columns = (Column("_id", "text", False), Column("a.b", "bigint"), Column("$c", "text"))
    document = Sent({"op": "c", "source": SOURCE, "after": '{"_id": "1","a.b": 5,"$c": "x","a": {"b": 6}}'}, {"id": '"1"'})
    (found,) = leaves_of(session, FORM, columns, ["_id"], [document])
    assert found["row"] == {"_id": "1", "a.b": "5", "$c": "x"}


def test_moments_beyond_the_years(session: SparkSession) -> None:
    """Milliseconds that a type does not hold, and numbers, are texts that fit no time."""
    columns = (Column("_id", "text", False), Column("t", "timestamp(3) with time zone"), Column("d", "date"))
    columns = (*columns, Column("w", "timestamp(3) without time zone"), Column("c", "time(3) without time zone"))
    days = [253402214400000, -62135596800000, 253402300800000, -62135683200000, 9223372036854775807]
    events = [sent("c", "1", after={"_id": "1", **{name: {"$date": day} for name in "tdwc"}}) for day in days]
    events.append(sent("c", "1", after={"_id": "1", **dict.fromkeys("tdwc", 5)}))
    found = [f["row"] for f in leaves_of(session, FORM, columns, ["_id"], events)]
    assert [row["t"] for row in found[:2]] == ["9999-12-31T00:00:00.000Z", "0001-01-01T00:00:00.000Z"]
    assert [row["d"] for row in found[:2]] == ["2932896", "-719162"]
    for row, number in zip(found[2:], [*days[2:], 5], strict=True):
        assert {row[name] for name in "tdwc"} == {f"the number {number}"}
