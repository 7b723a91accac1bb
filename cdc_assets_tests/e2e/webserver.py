"""What a reader of the running stack's GraphQL sees: assets, what has materialized them, checks; and its buttons."""

from __future__ import annotations

import time
from typing import Any

import httpx

_NODES = "{ assetNodes { assetKey { path } } }"
_LATEST = """query($key: AssetKeyInput!) { assetOrError(assetKey: $key) {
  ... on Asset { assetMaterializations(limit: 1) { runOrError { ... on Run { tags { key value } } } } } } }"""
_CHECKS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError {
  ... on AssetChecks { checks { name executionForLatestMaterialization { status } } } } } } }"""
_LAUNCH = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_RUN = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
_SENSOR = """query($name: String!) { sensorOrError(sensorSelector: {
  sensorName: $name, repositoryName: "__repository__", repositoryLocationName: "cdc_assets"}) {
  ... on Sensor { sensorState { status ticks(limit: 1) { status skipReason } } } } }"""


class Graphql:
    """The webserver at `url`, which may ask for a token."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = {"query": query, "variables": variables}
        answer = httpx.post(f"{self._url}/graphql", json=body, headers=self._headers, timeout=60, trust_env=False).json()
        assert not answer.get("errors"), answer["errors"]
        return dict(answer["data"])

    def assets(self) -> set[str]:
        return {"/".join(node["assetKey"]["path"]) for node in self.ask(_NODES)["assetNodes"]}

    def sensor_that_made(self, asset: str) -> str:
        """The sensor whose run has materialized the asset last; empty: none has."""
        found = self.ask(_LATEST, key={"path": asset.split("/")})["assetOrError"]
        for materialization in found.get("assetMaterializations", ()):
            tags = {tag["key"]: tag["value"] for tag in materialization["runOrError"].get("tags", ())}
            return str(tags.get("dagster/sensor_name", ""))
        return ""

    def checks(self, asset: str) -> dict[str, str]:
        """`{check: status}`; without those that have not been run since the last materialization."""
        found = self.ask(_CHECKS, key={"path": asset.split("/")})["assetNodeOrError"]["assetChecksOrError"]["checks"]
        return {each["name"]: each["executionForLatestMaterialization"]["status"] for each in found if _ran(each)}

    def execute_checks(self, chosen: list[tuple[str, str]]) -> None:
        """As the button does: these checks of these assets, and wait for their end."""
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": "cdc_assets",
            "jobName": "__ASSET_JOB",
            "assetSelection": [],
            "assetCheckSelection": [{"assetKey": {"path": asset.split("/")}, "name": name} for asset, name in chosen],
        }
        launched = self.ask(_LAUNCH, params={"selector": selector, "runConfigData": {}})["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        deadline = time.monotonic() + 240
        while (status := self.ask(_RUN, id=launched["run"]["runId"])["runOrError"]["status"]) not in ("SUCCESS", "FAILURE"):
            assert time.monotonic() < deadline, status
            time.sleep(0.5)

    def sensor(self, name: str) -> tuple[str, str]:
        """Whether it runs, and why its last tick did nothing."""
        state = self.ask(_SENSOR, name=name)["sensorOrError"]["sensorState"]
        return state["status"], next((tick["skipReason"] or "" for tick in state["ticks"]), "")


def _ran(check: dict[str, Any]) -> bool:
    return check["executionForLatestMaterialization"] is not None
