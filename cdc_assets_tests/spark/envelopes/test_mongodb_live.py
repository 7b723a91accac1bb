"""The real connector for MongoDB on a compatible server (SecantusDB 0.7.0b3), and its documents through the whole chain."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.live.small_chain import small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.all, pytest.mark.stack]

DOCUMENTS, PADDING = 20_000, "x" * 700


@contextmanager
def updates(live: LiveMongoDb, name: str, rate: int = 200) -> Iterator[None]:
    """Updates, deletes and inserts all the time, over all documents."""
    stop, random = threading.Event(), Random(7)

    def write() -> None:
        with live.server.client() as client:
            collection, number = client[live.name][name], 0
            while not stop.wait(1 / rate):
                number += 1
                key = random.randrange(DOCUMENTS)
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


def overtaken(records: Iterable[Record]) -> int:
    """How many rows of a snapshot say a later time than a change behind them does."""
    read: dict[str | None, int] = {}
    found = 0
    for record in records:
        event = json.loads(record.value) if record.value else {"op": ""}
        if event["op"] == "r":
            read[record.key] = event["source"]["ts_ms"]
        elif event["op"] and event["source"]["ts_ms"] <= read.get(record.key, -1):
            found += 1
    return found


def test_documents_that_are_written_while_a_snapshot_reads_them(
    mongodb: LiveMongoDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    live = mongodb.renamed("mgsnap")
    with live.server.client() as client:
        numbers = range(DOCUMENTS)
        client[live.name].big.insert_many([{"_id": number, "v": 0, "padding": PADDING} for number in numbers])
    columns = {"_id": "bigint not null", "v": "bigint", "new": "boolean"}
    table = {"name": f"{live.name}.big", "keys": ["_id"], "columns": columns}
    with updates(live, "big"):
        live.capture([table])
        time.sleep(5)
    with small_chain(live, remote, session, tmp_path / "lake", [table]) as chain:
        found = rows(chain.silver(f"{live.name}.big"))
        assert {row["_id"]: (row["v"], row["new"]) for row in found} == truth(live, "big")
        (records,) = live.records()[f"{live.name}.{live.name}.big"].values()
        assert overtaken(records) > 0
