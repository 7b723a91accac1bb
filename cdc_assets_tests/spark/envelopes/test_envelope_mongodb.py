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
            sent("d", 1004),
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
        "part": "1700000000123",
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
