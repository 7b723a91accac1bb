"""What a reader of the running stack's GraphQL sees: assets, what has materialized them, checks; and its buttons."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

_NODES = "{ assetNodes { assetKey { path } } }"
_LATEST = """query($key: AssetKeyInput!) { assetOrError(assetKey: $key) {
  ... on Asset { assetMaterializations(limit: 1) { runOrError { ... on Run { tags { key value } } } } } } }"""
_CHECKS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError {
  ... on AssetChecks { checks { name executionForLatestMaterialization { status timestamp } } } } } } }"""
_LAUNCH = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_RUN = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_SENSOR = """query($selector: SensorSelector!) { sensorOrError(sensorSelector: $selector) {
  ... on Sensor { id sensorState { status ticks(limit: 1) { status skipReason } } } } }"""
_START = """mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) {
  __typename ... on Sensor { sensorState { status } } } }"""
_STOP = """mutation($id: String!) { stopSensor(id: $id) {
  __typename ... on StopSensorMutationResult { instigationState { status } } } }"""
_OUTPUTS = """query($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events {
  ... on ExecutionStepOutputEvent { stepKey metadataEntries { label
    ... on BoolMetadataEntry { boolValue } ... on IntMetadataEntry { intValue } } } } } } }"""


class Graphql:
    """The webserver at `url`, which may ask for a token, and of it the code location of this name."""

    def __init__(self, url: str, token: str = "", location: str = "cdc_assets") -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"} if token else {}
        self._repository = {"repositoryName": "__repository__", "repositoryLocationName": location}

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = {"query": query, "variables": variables}
        answer = httpx.post(f"{self._url}/graphql", json=body, headers=self._headers, timeout=60, trust_env=False).json()
        assert not answer.get("errors"), answer["errors"]
        return dict(answer["data"])

    def assets(self) -> set[str]:
        return {"/".join(node["assetKey"]["path"]) for node in self.ask(_NODES)["assetNodes"]}

    def sensor_that_made(self, asset: str) -> str:
        """The sensor whose run has materialized the asset last; empty: none has, a minute after Delta has the rows."""
        deadline = time.monotonic() + 240
        while not (name := self._sensor_of_last_run(asset)) and time.monotonic() < deadline:
            time.sleep(0.3)
        return name

    def _sensor_of_last_run(self, asset: str) -> str:
        found = self.ask(_LATEST, key={"path": asset.split("/")})["assetOrError"]
        for materialization in found.get("assetMaterializations", ()):
            tags = {tag["key"]: tag["value"] for tag in materialization["runOrError"].get("tags", ())}
            return str(tags.get("dagster/sensor_name", ""))
        return ""

    def checks(self, asset: str) -> dict[str, str]:
        """`{check: status}`; empty: not run since the last materialization."""
        found = self.ask(_CHECKS, key={"path": asset.split("/")})["assetNodeOrError"]["assetChecksOrError"]["checks"]
        return {each["name"]: (each["executionForLatestMaterialization"] or {}).get("status", "") for each in found}

    def check_told_at(self, asset: str, name: str, status: str) -> float:
        """When the page has learned that this check has this status, which it has now: seconds since 1970."""
        found = self.ask(_CHECKS, key={"path": asset.split("/")})["assetNodeOrError"]["assetChecksOrError"]["checks"]
        (last,) = [each["executionForLatestMaterialization"] for each in found if each["name"] == name]
        assert last is not None, f"{name} of {asset} is not evaluated"
        assert last["status"] == status
        return float(last["timestamp"])

    def statuses_at_end(self, checked: list[tuple[str, str]], *, seconds: float = 240.0) -> dict[tuple[str, str], str]:
        """The statuses of these checks of these assets, once none of them is under way."""
        deadline = time.monotonic() + seconds
        while True:
            found = {(asset, name): self.checks(asset)[name] for asset, name in checked}
            if "IN_PROGRESS" not in found.values() or time.monotonic() > deadline:
                return found
            time.sleep(0.5)

    def execute_checks(self, chosen: list[tuple[str, str]], config: Mapping[str, Any] | None = None) -> None:
        """As the button does: these checks of these assets, and wait for their end."""
        checks = [{"assetKey": {"path": asset.split("/")}, "name": name} for asset, name in chosen]
        selector = {"jobName": "__ASSET_JOB", "assetSelection": [], "assetCheckSelection": checks}
        self.end_of(self._launch(selector, config or {}))

    def materialize(self, assets: list[str], config: Mapping[str, Any]) -> None:
        """As the button does: these assets with their checks, and wait for the run's success."""
        selector = {"jobName": "__ASSET_JOB", "assetSelection": [{"path": asset.split("/")} for asset in assets]}
        assert self.end_of(run := self._launch(selector, config)) == "SUCCESS", run

    def launch_job(self, name: str, config: Mapping[str, Any]) -> str:
        """As the launchpad does; the run's id."""
        return self._launch({"jobName": name}, config)

    def _launch(self, selector: Mapping[str, Any], config: Mapping[str, Any]) -> str:
        params = {"selector": {**self._repository, **selector}, "runConfigData": config}
        launched = self.ask(_LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def end_of(self, run: str) -> str:
        """Its status, once it has ended."""
        deadline = time.monotonic() + 240
        while (status := self.ask(_RUN, id=run)["runOrError"]["status"]) not in ("SUCCESS", "FAILURE", "CANCELED"):
            assert time.monotonic() < deadline, status
            time.sleep(0.5)
        return str(status)

    def outputs(self, run: str) -> dict[str, dict[str, Any]]:
        """`{step: {label: number or truth}}`: what the run's page shows of its steps."""
        events = [event for event in self.ask(_OUTPUTS, id=run)["logsForRun"]["events"] if event]
        return {
            event["stepKey"]: {
                entry["label"]: entry.get("boolValue", entry.get("intValue")) for entry in event["metadataEntries"]
            }
            for event in events
        }

    def sensor(self, name: str) -> tuple[str, str]:
        """Whether it runs, and why its last tick did nothing."""
        state = self.ask(_SENSOR, selector=self._sensor(name))["sensorOrError"]["sensorState"]
        return state["status"], next((tick["skipReason"] or "" for tick in state["ticks"]), "")

    def start_sensor(self, name: str) -> None:
        """As its switch does."""
        started = self.ask(_START, selector=self._sensor(name))["startSensor"]
        assert started["sensorState"]["status"] == "RUNNING", started

    def stop_sensor(self, name: str) -> None:
        """As its switch does."""
        found = self.ask(_SENSOR, selector=self._sensor(name))["sensorOrError"]
        stopped = self.ask(_STOP, id=found["id"])["stopSensor"]
        assert stopped["instigationState"]["status"] == "STOPPED", stopped

    def _sensor(self, name: str) -> dict[str, str]:
        return {"sensorName": name, **self._repository}
