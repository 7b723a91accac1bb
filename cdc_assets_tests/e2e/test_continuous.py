"""`mode: continuous` on the embedded stack: rows come without a sensor's run; the run is killed, paused, resumed, given back."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse, until

pytestmark = [pytest.mark.e2e, pytest.mark.all]
KEEPER, SILVER = "keep_continuous_world", "silver/world/silver_country"
_LAST = """query($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset { assetMaterializations(limit: 1) {
  runOrError { ... on Run { runId jobName } } metadataEntries { label } } } } }"""
_RUNS = """{ runsOrError(filter: {tags: [{key: "cdc/source", value: "world"}], createdAfter: %f}) { ... on Runs {
  results { assetSelection { path } } } } }"""
_MESSAGES = """query($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events {
  ... on MessageEvent { message } } } } }"""


class Country:
    """One row of the source, changed again and again."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self.lakehouse = lakehouse

    def change(self) -> int:
        with self.lakehouse.connect("world") as world:
            told = world.execute("UPDATE country SET population = population + 1 WHERE iso = 'LI' RETURNING population")
            return int(told.fetchone()[0])

    def is_in_silver(self, population: int) -> bool:
        rows = DeltaTable(str(self.lakehouse.silver("world", "country"))).to_pyarrow_table(columns=["iso", "population"])
        return {"iso": "LI", "population": population} in rows.to_pylist()

    def arrives(self) -> None:
        population = self.change()
        until(lambda: self.is_in_silver(population), "the row does not come")


@pytest.fixture
def country(lakehouse: Lakehouse, graphql: Graphql) -> Iterator[Country]:
    file = lakehouse.sources / "world.yaml"
    before = file.read_text()
    file.write_text(before + "mode: continuous\n")
    try:
        lakehouse.cdc("reload")
        yield Country(lakehouse)
    finally:
        file.write_text(before)
        lakehouse.cdc("reload")


def run_at_work(graphql: Graphql) -> str:
    """The run that has told of silver last, once the sensor says that it is at work."""
    until(lambda: "is at work" in graphql.sensor(KEEPER)[1], "no run is kept")
    found = graphql.ask(_LAST, key={"path": SILVER.split("/")})["assetOrError"]["assetMaterializations"][0]
    return str(found["runOrError"].get("runId", "")) if found["runOrError"].get("jobName") == "continuous_world" else ""


def test_a_source_in_continuous_mode(lakehouse: Lakehouse, graphql: Graphql, country: Country) -> None:
    lakehouse.cdc("wait", "world")
    began = time.time()
    country.arrives()
    run = until(lambda: run_at_work(graphql), "no run tells of silver")
    last = graphql.ask(_LAST, key={"path": SILVER.split("/")})["assetOrError"]["assetMaterializations"][0]
    told = {entry["label"] for entry in last["metadataEntries"]}
    assert {"cdc/throughput", "cdc/lag_records", "cdc/lag_seconds", "cdc/events_folded", "cdc/delta_version"} <= told
    until(lambda: re.search(r"is at work: \d+/s, caught up", graphql.sensor(KEEPER)[1]), "the sensor does not tell the figures")

    # Its process is killed: the sensor starts another run, and nothing is missing.
    messages = [event.get("message", "") for event in graphql.ask(_MESSAGES, id=run)["logsForRun"]["events"]]
    (pid,) = {found[1] for text in messages if (found := re.search(r"Executing steps in process \(pid: (\d+)\)", text))}
    os.kill(int(pid), signal.SIGKILL)
    country.arrives()
    assert graphql.end_of(run) == "FAILURE"
    second = until(lambda: (found := run_at_work(graphql)) != run and found, "no other run tells of silver")

    # Paused, its run ends by itself, and `cdc wait` says where the switch is.
    graphql.stop_sensor(KEEPER)
    assert graphql.end_of(second) == "SUCCESS"
    population = country.change()
    waited = lakehouse.cdc("wait", "world", "--timeout", "4", check=False)
    assert waited.returncode == 1
    assert f"sensor {KEEPER} is STOPPED: switch it on" in waited.stderr
    assert not country.is_in_silver(population)
    graphql.start_sensor(KEEPER)
    lakehouse.cdc("wait", "world")
    assert country.is_in_silver(population)

    # All this time no sensor's run has carried bronze or silver.
    runs = graphql.ask(_RUNS % began)["runsOrError"]["results"]
    assert {key["path"][0] for each in runs for key in each["assetSelection"] or ()} <= {"backup"}


def test_given_back_to_the_sensor_the_long_run_ends(lakehouse: Lakehouse, graphql: Graphql) -> None:
    under_way = (
        '{ runsOrError(filter: {pipelineName: "continuous_world", statuses: [STARTED]}) { ... on Runs { results { runId } } } }'
    )
    until(lambda: not graphql.ask(under_way)["runsOrError"]["results"], "the long run goes on")
    Country(lakehouse).arrives()
    # Delta has the rows a moment before Dagster has the event.
    until(lambda: graphql.sensor_that_made(SILVER) == "offsets_world", "no run of the sensor tells of silver")
