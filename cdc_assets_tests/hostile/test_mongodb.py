"""A small hostile workload on a MongoDB-compatible server: silver holds what the collections hold, and reconcile says so.

Every field changes its type; values are compared as BSON, which a reader that is not ours makes of the texts in silver.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets import names
from cdc_assets_tests.hostile.command import reconcile
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.all]

FIELDS = ("a", "b c", "ключ", "op", "after", "0")
STEPS, COLLECTIONS = 120, ("plain", "kept")


def values(random: Random) -> Any:
    """One of any type that a document may have but NaN and the infinities, which are texts in JSON."""
    from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp

    moment = dt.datetime(random.choice((1, 1582, 1969, 2024, 9999)), 2, 28, 23, 59, 59, 123000)
    plain: tuple[Any, ...] = (None, True, random.randint(-(2**31), 2**31 - 1), Int64(random.randint(2**53, 2**63 - 1)))
    texts = ("", "1", "null", 'te"x\\t\t €', "__debezium_unavailable_value", '{"$oid": "x"}', "😀" * 300)
    others = (
        *(random.choice((0.1, -0.5, 1.7976931348623157e308, 5e-324)), Decimal128("1.50"), Decimal128("-9.999E+6144"), moment),
        *(ObjectId(), Binary(b"\0\xff", random.choice((0, 2, 4, 128))), Timestamp(7, 1), Regex("^a", "i")),
        *([1, "2", [None, {"x.y": Int64(1), "z$": []}]], {"x.y": 1, "z$": {"q": True}}, {}, []),
    )
    return random.choice((random.choice(plain), random.choice(texts), random.choice(others)))


def ids(random: Random) -> Any:
    """Of several types; those that the server calls equal have one."""
    from bson import Int64, ObjectId

    number = random.randint(1, 12)
    return random.choice(
        (
            *(number, str(number), number + 0.5, ObjectId(f"{number:024x}"), number % 2 == 0, None),
            *(dt.datetime(2024, 1, number), {"n": number, "t": Int64(2**40)}, {"t": Int64(2**40), "n": number}),
        )
    )


class Documents:
    """What happens to the collections of one database."""

    def __init__(self, random: Random, database: Any) -> None:
        self.random, self.database = random, database

    def step(self, session: Any = None) -> None:
        """One act on one document."""
        collection, id_ = self.database[self.random.choice(COLLECTIONS)], ids(self.random)
        act: Callable[[], Any] = self.random.choice(
            (
                lambda: collection.replace_one({"_id": id_}, self._document(), upsert=True, session=session),
                lambda: collection.update_one({"_id": id_}, self._change(), upsert=True, session=session),
                lambda: collection.update_many({}, {"$set": {FIELDS[0]: values(self.random)}}, session=session),
                lambda: collection.delete_one({"_id": id_}, session=session),
                lambda: self._again(collection, id_, session),
            )
        )
        act()

    def together(self) -> None:
        """Several acts of one transaction, which may be given up."""
        with self.database.client.start_session() as session:
            session.start_transaction()
            for _ in range(self.random.randint(2, 5)):
                self.step(session)
            session.commit_transaction() if self.random.random() < 0.8 else session.abort_transaction()

    def _document(self) -> dict[str, Any]:
        return {name: values(self.random) for name in self.random.sample(FIELDS, self.random.randint(0, len(FIELDS)))}

    def _change(self) -> dict[str, Any]:
        one, two, three = self.random.sample(FIELDS, 3)
        change: dict[str, Any] = {"$set": {one: values(self.random)}}
        return change | self.random.choice(({}, {"$unset": {two: ""}}, {"$rename": {two: three}}))

    def _again(self, collection: Any, id_: Any, session: Any) -> None:
        collection.delete_one({"_id": id_}, session=session)
        collection.insert_one({"_id": id_, **self._document()}, session=session)


def written(value: Any) -> str:
    """One text for values that the server calls the same."""
    from bson import Decimal128, Int64

    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dt.datetime):
        return repr(value.replace(tzinfo=None))
    return repr(int(value)) if isinstance(value, Int64) else str(value) if isinstance(value, Decimal128) else repr(value)


def in_silver(chain: SmallChain, collection: str) -> Counter[str]:
    from bson import json_util

    def value(text: str | None) -> Any:
        return None if text is None else json_util.loads(text)

    found = read(chain.silver(f"{chain.source.name}.{collection}"))
    return Counter(written({name: value(row[name]) for name in ("_id", *FIELDS)}) for row in found)


def unfit(chain: SmallChain) -> list[str]:
    """What is in quarantine."""
    paths = [names.quarantine_path(str(chain.root), chain.source, table) for table in chain.source.tables]
    return [str(row)[:1500] for path in paths if Path(path, "_delta_log").exists() for row in read(path)[:3]]


def in_source(database: Any, collection: str) -> Counter[str]:
    return Counter(written({name: document.get(name) for name in ("_id", *FIELDS)}) for document in database[collection].find())


def play(mongodb: LiveMongoDb, seed: int, remote: str, session: SparkSession, root: Path) -> None:
    """Documents before the connector, while it runs, and over a restart of it."""
    random, name = Random(seed), f"mghostile{seed}"
    mongodb.server.grant(name)
    live = replace(mongodb, name=name, reconciliation={"marker": f"{name}.marker", "signals": f"{name}.signals"})
    columns = {"_id": "jsonb", **dict.fromkeys(FIELDS, "jsonb")}
    tables = [{"name": f"{name}.{collection}", "keys": ["_id"], "columns": columns} for collection in COLLECTIONS]
    with live.server.client() as client:
        documents = Documents(random, client[name])
        for collection in ("marker", "signals", *COLLECTIONS):
            client[name].create_collection(collection)
        for _ in range(STEPS // 4):
            documents.step()
        with small_chain(live, remote, session, root, [tables[0], {**tables[1], "history": "scd2"}]) as chain:
            for number in range(STEPS):
                documents.together() if number % 10 == 0 else documents.step()
                if number == STEPS // 2:
                    live.connect.restart(f"{name}-capture")
                    live.connect.wait_running(f"{name}-capture")
            chain.advance()
            assert unfit(chain) == []
            for collection in COLLECTIONS:
                wanted, found = in_source(client[name], collection), in_silver(chain, collection)
                only = [*(wanted - found)][:2], [*(found - wanted)][:2]
                assert only == ([], []), (collection, len(wanted), len(found))
            code, told, _ = reconcile(chain)
            assert (code, told) == (0, "")
        live.connect.delete(f"{name}-capture")


def test_silver_is_what_the_collections_have(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "MongoDB", lambda seed: play(mongodb, seed, remote, session, tmp_path / str(seed)))
