"""Collections of a MongoDB-compatible server on their way into a running connector, while others write."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from cdc_assets.capture.onboarding import onboarding_run
from cdc_assets.capture.onboarding.onboarding_state import Route
from cdc_assets.clients.platform import Platform
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.onboarding.ground import Ground, ground

pytestmark = pytest.mark.all

SOURCE, DOCUMENTS = "mongodepot", 1000


@pytest.fixture(scope="module")
def depot(mongodb: LiveMongoDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(mongodb, tmp_path_factory.mktemp(SOURCE) / "sources", SOURCE) as own:
        yield own


@contextmanager
def writes(own: Ground, collection: str) -> Iterator[None]:
    """Documents change, go and come, until the block ends."""
    stop, random = threading.Event(), Random(3)

    def write() -> None:
        with own.live.server.client() as client:
            number = 0
            while not stop.wait(0.01):
                number += 1
                key = random.randrange(2 * DOCUMENTS)
                if number % 10 == 0:
                    client[own.name][collection].delete_one({"_id": key})
                else:
                    client[own.name][collection].update_one({"_id": key}, {"$set": {"v": f"changed {number}"}}, upsert=True)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def last_values(own: Ground, collection: str) -> dict[int, str]:
    """What the topic leaves of each document: its last change, else the row that a snapshot has read."""
    parts = own.live.records().get(f"{own.name}.{own.name}.{collection}", {})
    read, changed = dict[int, str | None](), dict[int, str | None]()
    for record in (record for part in parts.values() for record in part if record.value is not None):
        event = json.loads(record.value or "")
        key = int(json.loads(json.loads(record.key or "{}")["id"]))
        value = json.loads(event["after"])["v"] if event["after"] else None
        (read if event["op"] == "r" else changed)[key] = value
    return {key: value for key, value in (read | changed).items() if value is not None}


@pytest.mark.parametrize("route", ["incremental", "temporary"])
def test_a_collection_is_taken_in_while_others_write(depot: Ground, route: Route) -> None:
    collection, said = f"late_{route}", list[str]()
    depot.create(collection, DOCUMENTS)
    with writes(depot, collection):
        onboarding_run.begin(SOURCE, [f"{SOURCE}.{collection}"], route)
        outcome = onboarding_run.go_on(Platform(), SOURCE, said.append)
    assert outcome.state == "done", said
    assert f"{SOURCE}.{collection}" in depot.file.read_text()
    for each in (collection, f"{SOURCE}_old"):
        wanted = {row["id"]: row["v"] for row in depot.rows(each)}
        until(lambda each=each, wanted=wanted: last_values(depot, each) == wanted, seconds=120)  # type: ignore[misc]
    assert f"{SOURCE}-capture-onboard" not in depot.live.connect.connectors()
