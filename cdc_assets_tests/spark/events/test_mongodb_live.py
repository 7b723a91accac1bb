"""The real connector for MongoDB on a compatible server (SecantusDB 0.7.0b3), and its documents through the whole chain."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clients.kind_clients import open_reader
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.registry import names
from cdc_assets.registry.names import signal_table
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.hostile.command import cdc
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.specs import Column
from spark.values.lake_types import lake_type
from spark.values.other_databases import AS_WRITTEN, BSON_TYPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.all, pytest.mark.stack]

DOCUMENTS, FEW, PADDING = 20_000, 2_000, "x" * 700
TEXT = 'te"x\\t\t €'
DELTA_NAMES = {"bigint": "long"}
"""As Delta's own schema writes a Spark SQL type."""
MOMENT = dt.datetime(2024, 2, 29, 12, 0, 0, 123000)
DOUBLES = ("NaN", "Infinity", "-Infinity")
TYPED = {
    **{"_id": 1, "d": 1.5, "l": 2**53 + 1, "n": "1.50", "s": TEXT, "b": True, "o": "596e275826f08b2730779e1f"},
    **{"at": MOMENT.replace(tzinfo=dt.timezone.utc), "bin": '{"$binary":"AA==","$type":"00"}', "arr": '[1,"2"]'},
    **{"sub": '{"a":{"$numberLong":"1"}}', "mixed": "1"},
}


@contextmanager
def updates(live: LiveMongoDb, name: str, documents: int, rate: int = 200) -> Iterator[None]:
    """Updates, deletes and inserts all the time, over all documents."""
    stop, random = threading.Event(), Random(7)

    def write() -> None:
        with live.server.client() as client:
            collection, number = client[live.name][name], 0
            while not stop.wait(1 / rate):
                number += 1
                key = random.randrange(documents)
                if number % 20 == 0:
                    collection.delete_one({"_id": key})
                elif number % 20 == 1:
                    collection.replace_one({"_id": key}, {"_id": key, "v": number, "new": True}, upsert=True)
                else:
                    collection.update_one({"_id": key}, {"$set": {"v": number}})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def truth(live: LiveMongoDb, name: str) -> dict[Any, Any]:
    with live.server.client() as client:
        return {d["_id"]: (d["v"], d.get("new")) for d in client[live.name][name].find({}, {"v": 1, "new": 1})}


def test_documents_that_are_written_while_a_snapshot_reads_them(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    live = mongodb.renamed("mgsnap")
    with live.server.client() as client:
        numbers = range(DOCUMENTS)
        client[live.name].big.insert_many([{"_id": number, "v": 0, "padding": PADDING} for number in numbers])
    columns = {"_id": "bigint not null", "v": "bigint", "new": "boolean"}
    table = {"name": f"{live.name}.big", "keys": ["_id"], "columns": columns}
    with updates(live, "big", DOCUMENTS):
        live.capture([table])
        time.sleep(5)
    with small_chain(live, remote, session, tmp_path / "lake", [table]) as chain:
        found = rows(chain.silver(f"{live.name}.big"))
        assert {row["_id"]: (row["v"], row["new"]) for row in found} == truth(live, "big")


def compared(chain: SmallChain, *collections: str) -> dict[str, str]:
    """The product's verdicts on these collections, by their tables' names."""
    source = chain.source
    assert isinstance(source, UnaskedSource)
    tables = [source.table(f"{source.name}.{collection}") for collection in collections]
    found = compare_rows(Chain(chain.platform, source), tables, ComparisonRequest(timeout=180))
    return {name: f"{result.verdict} {result.reason}".strip() for name, result in found.items()}


def snapshot_rows(live: LiveMongoDb, name: str, kind: str) -> int:
    (records,) = live.records()[f"{live.name}.{live.name}.{name}"].values()
    return sum(1 for r in records if r.value and json.loads(r.value)["source"]["snapshot"] == kind)


def signalled(live: LiveMongoDb, name: str, kind: str, told: str, *, from_row: int = 0) -> None:
    """Have the collection read again, and wait until nothing more of it comes."""
    source = live.source([f"{live.name}.{name}"])
    data = {"data-collections": [f"{live.name}.{name}"], "type": kind}
    with live.settings():
        open_reader(source.database).signal(signal_table(source), uuid.uuid4().hex, "execute-snapshot", json.dumps(data))
    before, deadline = -1, time.monotonic() + 240
    while (count := snapshot_rows(live, name, told)) <= from_row or count != before:
        assert time.monotonic() < deadline, (kind, count)
        before = count
        time.sleep(4)


def test_snapshots_of_a_collection_that_is_streamed(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    """Incremental and blocking, under writes; silver is compared with the server by the product as well."""
    name = "mgagain"
    mongodb.server.grant(name)
    live = replace(mongodb, name=name, reconciliation={"marker": f"{name}.marker", "signals": f"{name}.signals"})
    with live.server.client() as client:
        client[name].few.insert_many([{"_id": number, "v": 0, "padding": PADDING} for number in range(FEW)])
        for needed in ("marker", "signals"):
            client[name].create_collection(needed)
    table = {"name": f"{name}.few", "keys": ["_id"], "columns": {"_id": "bigint not null", "v": "bigint", "new": "boolean"}}
    with small_chain(live, remote, session, tmp_path / "lake", [table]) as chain:
        with updates(live, "few", FEW):
            signalled(live, "few", "incremental", "incremental")
            signalled(live, "few", "blocking", "true", from_row=FEW)
        chain.advance()
        found = rows(chain.silver(f"{name}.few"))
        assert {row["_id"]: (row["v"], row["new"]) for row in found} == truth(live, "few")
        (verdict,) = compared(chain, "few").values()
        assert verdict == "equal"


def test_documents_of_every_type_and_every_way_to_change_them(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    """Columns come from samples; what the collections hold at the end is what silver holds, and a dropped one is told."""
    from bson import Binary, Decimal128, Int64, ObjectId

    name, kinds = "mgtypes", of_each_type()
    assert {*kinds} == {each.name for each in BSON_TYPES}
    mongodb.server.grant(name)
    live = replace(mongodb, name=name, reconciliation={"marker": f"{name}.marker", "signals": f"{name}.signals"})
    oid, uuid4 = ObjectId("596e275826f08b2730779e1f"), Binary(b"0123456789abcdef", 4)
    plain = {"l": Int64(2**53 + 1), "n": Decimal128("1.50"), "s": TEXT, "b": True, "at": MOMENT, "o": oid}
    ids = [1, "1", oid, str(oid), None, 2.5, uuid4, {"a": Int64(1), "at": MOMENT}, True]
    with live.server.client() as client:
        database = client[name]
        for needed in ("marker", "signals"):
            database.create_collection(needed)
        database.types.insert_many(
            [
                {"_id": 1, "d": 1.5, **plain, "bin": b"\0", "arr": [1, "2"], "sub": {"a": Int64(1)}, "mixed": 1},
                *[{"_id": number, "d": float(text), "mixed": text} for number, text in enumerate(DOUBLES, 2)],
            ]
        )
        database.kinds.insert_one({"_id": 1, **kinds})
        database.ids.insert_many([{"_id": id_, "v": number} for number, id_ in enumerate(ids)])
        database.ops.insert_many([{"_id": number, "a": 0, "b": "old"} for number in range(8)])
        database.gone.insert_many([{"_id": number, "v": 1} for number in range(3)])
    tables = [f"{name}.{collection}" for collection in ("types", "ids", "ops", "gone", "kinds")]
    with small_chain(live, remote, session, tmp_path / "lake", tables) as chain:
        with live.server.client() as client:
            change(client, name)
            client[name].kinds.insert_one({"_id": 2, **kinds})
            client[name].ids.delete_many({"_id": {"$in": ["1", uuid4, ids[7]]}})
            client[name].ids.update_one({"_id": None}, {"$set": {"v": 40}})
            client[name].gone.drop()
            client[name].gone.insert_one({"_id": 0, "v": 2})
            wanted = {d["_id"]: (d.get("a"), d.get("b"), d.get("c")) for d in client[name].ops.find()}
        chain.advance()
        first, *others = sorted(rows(chain.silver(f"{name}.types")), key=lambda row: row["_id"])
        assert {key: first[key] for key in TYPED} == TYPED
        assert [repr(row["d"]) for row in others] == ["nan", "inf", "-inf"]
        assert [row["mixed"] for row in others] == [json.dumps(text) for text in DOUBLES]
        check_kinds(chain, kinds)
        told = {row["_id"]: row["v"] for row in rows(chain.silver(f"{name}.ids"))}
        assert told == {"1": 0, json.dumps({"$oid": str(oid)}): 2, json.dumps(str(oid)): 3, "null": 40, "2.5": 5, "true": 8}
        found = {row["_id"]: (row["a"], row["b"], row.get("c")) for row in rows(chain.silver(f"{name}.ops"))}
        assert found == wanted
        # No event tells of a DROP; the comparison does.
        assert compared(chain, "ops", "gone") == {f"{name}__ops": "equal", f"{name}__gone": "different"}


def test_documents_that_the_lake_has_lost_or_that_came_by_a_rename_are_read_again(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    """By `cdc reconcile --heal`: damage in silver, an event lost in bronze, a collection that took another's name."""
    name = "mgheal"
    mongodb.server.grant(name)
    live = replace(mongodb, name=name, reconciliation={"marker": f"{name}.marker", "signals": f"{name}.signals"})
    columns = {"_id": "bigint not null", "v": "bigint"}
    with live.server.client() as client:
        for needed in ("marker", "signals"):
            client[name].create_collection(needed)
        for collection in ("kept", "moved"):
            client[name][collection].insert_many([{"_id": number, "v": number} for number in range(8)])
    tables = [{"name": f"{name}.{t}", "keys": ["_id"], "columns": columns} for t in ("kept", "moved", "arrived")]
    with small_chain(live, remote, session, tmp_path / "lake", tables) as chain:
        with live.server.client() as client:
            client[name].kept.insert_many([{"_id": 70, "v": 70}, {"_id": 80, "v": 80}])
            client[name].moved.rename("arrived")
            chain.advance(fold=False)
            bronze = DeltaTable(names.bronze_path(str(chain.root), chain.source))
            created = [row for row in bronze.to_pyarrow_table().to_pylist() if row["op"] == "c"]
            (lost,) = [row for row in created if b'"70"' in row["key"]]
            bronze.delete(f"epoch = {lost['epoch']} AND offset = {lost['offset']} AND topic = '{lost['topic']}'")
            chain.fold()
            DeltaTable(chain.silver(f"{name}.kept")).delete("v = 3")
            found = {r["table"]: r for r in json.loads(cdc(chain, "reconcile", name, "-o", "json").stdout)}
            told = {table.partition("__")[2]: result["keys_differing"] for table, result in found.items()}
            assert told == {"kept": 2, "moved": 8, "arrived": 8}, found
            healed = cdc(chain, "reconcile", "--heal", f"{name}.{name}__kept", f"{name}.{name}__arrived")
            assert healed.exit_code == 0, (healed.output, healed.exception)
            phantoms = cdc(chain, "reconcile", "--heal", f"{name}.{name}__moved")
            assert phantoms.exit_code == 1
            assert "write each of these keys once more at the source, and delete it there" in phantoms.output
            documents = list(client[name].arrived.find())
            client[name].moved.insert_many(documents)
            client[name].moved.delete_many({})
            chain.advance()
            for collection in ("kept", "moved", "arrived"):
                told = sorted(row["v"] for row in rows(chain.silver(f"{name}.{collection}")))
                assert told == sorted(d["v"] for d in client[name][collection].find()), collection
        equal = cdc(chain, "reconcile", name)
        assert equal.exit_code == 0, (equal.output, equal.exception)


def of_each_type() -> dict[str, Any]:
    """A value of each BSON type, by its name."""
    from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

    return {
        **{"double": 5e-324, "string": TEXT, "object": {"x.y": Int64(1), "z$": {"q": None}}, "array": [1, "2", [None]]},
        **{"binData": Binary(b"\0\xff", 128), "objectId": ObjectId("596e275826f08b2730779e1f"), "bool": False, "date": MOMENT},
        **{"null": None, "regex": Regex("^a", "i"), "javascript": Code("x => 1"), "int": -(2**31), "long": Int64(2**63 - 1)},
        **{"timestamp": Timestamp(7, 1), "decimal": Decimal128("1.50"), "minKey": MinKey(), "maxKey": MaxKey()},
    }


def check_kinds(chain: SmallChain, kinds: dict[str, Any]) -> None:
    """Each has the column and the Delta type of docs/reference/types.md, in the snapshot's row and in the streamed one."""
    from bson import json_util

    path = chain.silver(f"{chain.source.name}.kinds")
    fields = {field.name: field.type.type for field in DeltaTable(path).schema().fields if hasattr(field.type, "type")}
    read, streamed = sorted(rows(path), key=lambda row: row["_id"])
    for each in BSON_TYPES:
        if not each.column:
            assert each.name not in fields
            continue
        assert fields[each.name] == DELTA_NAMES.get(name := lake_type(Column("f", each.column, True)).name, name), each.name
        for row in (read, streamed):
            if each.column == AS_WRITTEN:
                assert json_util.loads(row[each.name]) == kinds[each.name], row[each.name]
            elif each.name == "date":
                assert row[each.name] == MOMENT.replace(tzinfo=dt.timezone.utc)
            else:
                assert row[each.name] == (str(kinds[each.name]) if each.column in ("text", "numeric") else kinds[each.name])


def change(client: Any, name: str) -> None:
    """Every document of `ops` in another way, the last four in one transaction."""
    ops = client[name].ops
    ops.update_one({"_id": 0}, {"$unset": {"b": ""}, "$inc": {"a": 5}})
    ops.replace_one({"_id": 1}, {"a": 7})
    ops.update_one({"_id": 2}, {"$rename": {"b": "c"}})
    ops.delete_one({"_id": 3})
    ops.insert_one({"_id": 3, "a": 9, "b": "again"})
    with client.start_session() as own, own.start_transaction():
        ops.update_one({"_id": 4}, {"$set": {"a": 1}}, session=own)
        ops.update_one({"_id": 4}, {"$set": {"a": 2, "b": None}}, session=own)
        ops.delete_one({"_id": 5}, session=own)
        ops.insert_one({"_id": 9, "a": 3}, session=own)
        ops.update_one({"_id": 9}, {"$set": {"b": "in one"}}, session=own)
