"""What Dagster's webserver has loaded, asked by GraphQL: the same answer that its pages show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.names import DIGEST_TAG, SOURCE_TAG

Key = tuple[str, ...]
_ENTRIES = """
query { workspaceOrError { __typename ... on PythonError { message } ... on Workspace { locationEntries {
  name locationOrLoadError { __typename ... on PythonError { message } ... on RepositoryLocation { serverId repositories {
    %s
  } } } } } } }
"""
_SENSORS = "sensors { name tags { key value } sensorState { status } }"
_ASSETS = "assetNodes { assetKey { path } tags { key value } assetChecksOrError { ... on AssetChecks { checks { name } } } }"
_EVERYTHING = f"jobs {{ name }} schedules {{ name }} {_SENSORS} {_ASSETS}"
_RELOAD = """
mutation($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename
  ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
  ... on ReloadNotSupported { message } ... on RepositoryLocationNotFound { message }
  ... on UnauthorizedError { message } ... on PythonError { message }
} }
"""


@dataclass(frozen=True)
class Sensor:
    """`source` and `digest` are what our own sensors are tagged with; empty for others."""

    running: bool
    source: str = ""
    digest: str = ""


@dataclass
class Location:
    """One code location as it is loaded; `error` where it could not be, and then it holds nothing.

    `sources`: of an asset that is tagged with a source and a layer, as ours are, the source.
    """

    name: str
    server: str = ""
    error: str = ""
    assets: set[Key] = field(default_factory=set)
    sources: dict[Key, str] = field(default_factory=dict)
    checks: set[tuple[Key, str]] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    schedules: set[str] = field(default_factory=set)
    sensors: dict[str, Sensor] = field(default_factory=dict)


class Webserver:
    """A webserver at `url`; each call answers within `seconds`.

    Raises:
        ServiceError: from every method, when it does not answer, or not with what was asked for.
    """

    def __init__(self, url: str, *, seconds: float = 120.0) -> None:
        self._answers = DagsterAnswers(url, seconds=seconds)
        self.url = self._answers.url

    def locations(self, *, sensors_only: bool = False) -> list[Location]:
        """All code locations. `sensors_only`: quick also with hundreds of tables; assets, checks and jobs stay empty."""
        answer = self.ask(_ENTRIES % (_SENSORS if sensors_only else _EVERYTHING))["workspaceOrError"]
        if answer["__typename"] != "Workspace":
            raise ServiceError(f"{self.url} cannot read its workspace: {answer.get('message', answer['__typename'])}")
        return [_location(entry) for entry in answer["locationEntries"]]

    def reload(self, location: str) -> None:
        """Ask for a reload, and wait for the answer. That it says yes proves nothing: look at `locations` afterwards."""
        answer = self.ask(_RELOAD, name=location)["reloadRepositoryLocation"]
        loaded = answer.get("locationOrLoadError") or {}
        message = answer.get("message") or loaded.get("message")
        if answer["__typename"] != "WorkspaceLocationEntry" or message:
            raise ServiceError(f"{self.url}: the code location {location} does not load: {(message or str(answer)).strip()}")

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The `data` of the answer; errors in it are raised."""
        try:
            return self._answers.ask(query, **variables)
        except ServiceError as error:
            trouble = f"{error}. Is it running, and CDC_DAGSTER_URL its address? ./cdc status"
            raise ServiceError(trouble, how=error.how) from error


def _location(entry: Mapping[str, Any]) -> Location:
    loaded = entry["locationOrLoadError"] or {}
    location = Location(entry["name"], str(loaded.get("serverId") or ""), str(loaded.get("message") or "").strip())
    for repository in loaded.get("repositories", ()):
        location.jobs |= {job["name"] for job in repository.get("jobs", ())}
        location.schedules |= {schedule["name"] for schedule in repository.get("schedules", ())}
        for sensor in repository["sensors"]:
            tags = {tag["key"]: tag["value"] for tag in sensor["tags"]}
            running = sensor["sensorState"]["status"] == "RUNNING"
            location.sensors[sensor["name"]] = Sensor(running, tags.get(SOURCE_TAG, ""), tags.get(DIGEST_TAG, ""))
        for node in repository.get("assetNodes", ()):
            key = tuple(node["assetKey"]["path"])
            location.assets.add(key)
            tags = {tag["key"]: tag["value"] for tag in node["tags"]}
            if {"layer", "source"} <= tags.keys():
                location.sources[key] = tags["source"]
            location.checks |= {(key, check["name"]) for check in node["assetChecksOrError"].get("checks", ())}
    return location
