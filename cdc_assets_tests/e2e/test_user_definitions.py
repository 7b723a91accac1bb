"""An asset of the user's own behind silver, in the embedded stack: launched by the webserver, run by the code location."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse, until

pytestmark = pytest.mark.e2e
GRAPH = "{ assetNodes { assetKey { path } dependencyKeys { path } groupName } }"
LAUNCH = """
mutation ($assets: [AssetKeyInput!]) {
  launchRun(executionParams: {
    selector: {repositoryLocationName: "cdc_assets", repositoryName: "__repository__", jobName: "__ASSET_JOB",
               assetSelection: $assets}, runConfigData: {}, mode: "default"}) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"


def test_an_asset_behind_silver_materializes_in_the_code_location(lakehouse: Lakehouse) -> None:
    ask = Graphql(lakehouse.addresses["CDC_DAGSTER_URL"], lakehouse.private("dagster_token")).ask

    nodes = {tuple(n["assetKey"]["path"]): n for n in ask(GRAPH)["assetNodes"]}
    gold = nodes["gold", "largest_cities"]
    assert [key["path"] for key in gold["dependencyKeys"]] == [["silver", "world", "silver_city"]]
    launched = ask(LAUNCH, assets=[{"path": ["gold", "largest_cities"]}])["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    deadline, status = time.monotonic() + 180, ""
    while status not in ("SUCCESS", "FAILURE", "CANCELED"):
        assert time.monotonic() < deadline, f"the run is {status}"
        time.sleep(0.2)
        status = ask(STATUS, id=launched["run"]["runId"])["runOrError"]["status"]
    assert status == "SUCCESS"
    found = json.loads((Path(lakehouse.addresses["CDC_LAKE"]) / "largest_cities.json").read_text())
    with lakehouse.connect("world") as world:
        largest = world.execute("SELECT max(population) FROM city WHERE geonameid > 0").fetchone()
    assert len(found) == 10
    assert largest[0] in [row["population"] for row in found]


def test_an_asset_that_follows_silver_is_built_after_an_insert(lakehouse: Lakehouse) -> None:
    """By the sensor of automation conditions, which nobody has started."""
    dagster = Graphql(lakehouse.addresses["CDC_DAGSTER_URL"], lakehouse.private("dagster_token"))
    assert dagster.sensor("default_automation_condition_sensor")[0] == "RUNNING"
    gold = Path(lakehouse.addresses["CDC_LAKE"]) / "places.json"
    with lakehouse.connect("world") as world:
        world.execute(
            "INSERT INTO city (geonameid, name, country, admin1, latitude, longitude, population, timezone, "
            "alternate_names) SELECT -77, 'Followed', iso, '', 0, 0, 1, 'UTC', '{}' FROM country LIMIT 1"
        )
    try:
        until(lambda: gold.exists() and "Followed" in json.loads(gold.read_text()), "gold has no row of it", seconds=240)
        assert dagster.sensor_that_made("gold/places") == "default_automation_condition_sensor"
    finally:
        with lakehouse.connect("world") as world:
            world.execute("DELETE FROM city WHERE geonameid = -77")
