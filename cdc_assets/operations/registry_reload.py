"""The registry and the running Dagster: what it must have, what it does not have yet, and the reload that brings it.

The only place that reloads: `cdc onboard`, `cdc offboard`, `cdc reload`, `cdc up` and whoever removes a source come here by
defs.declared_chains, which tells what is expected. Nobody says done before the webserver has what is declared; a location
that does not load is an error with its own text.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cdc_assets.clients.source_chain import Say
from cdc_assets.operations.dagster_webserver import Key, Location, Webserver
from cdc_assets.operations.own_definitions import news_of_definitions
from cdc_assets.registry import settings
from cdc_assets.registry.errors import RegistryError, ServiceError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import digest


@dataclass(frozen=True)
class Expected:
    """What Dagster must have of some sources. `digests` are those of their declarations, by name; "": the source must be gone.

    `check_names` are all that our checks are ever called: any other one on an asset of ours is a user's.
    """

    digests: dict[str, str]
    assets: frozenset[Key] = frozenset()
    checks: frozenset[tuple[Key, str]] = frozenset()
    check_names: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    schedules: frozenset[str] = frozenset()
    sensors: frozenset[str] = frozenset()

    def missing(self, location: Location) -> Iterator[str]:
        """What the location does not have, or has of an older declaration."""
        yield from (f"asset {'/'.join(key)}" for key in sorted(self.assets - location.assets))
        yield from (f"check {name} of {'/'.join(key)}" for key, name in sorted(self.checks - location.checks))
        yield from (f"job {name}" for name in sorted(self.jobs - location.jobs))
        yield from (f"schedule {name}" for name in sorted(self.schedules - location.schedules))
        yield from (f"sensor {name}" for name in sorted(self.sensors - location.sensors.keys()))
        for name, sensor in sorted(location.sensors.items()):
            if self.digests.get(sensor.source, sensor.digest) not in (sensor.digest, ""):
                yield f"the settings of {sensor.source} as they are now (sensor {name} was made of older ones)"

    def surplus(self, location: Location) -> Iterator[str]:
        """What the location still has of these sources, though it is no longer declared; a user's own is declared elsewhere."""
        ours = {key for key, source in location.sources.items() if source in self.digests}
        yield from (f"asset {'/'.join(key)}" for key in sorted(ours - self.assets))
        checks = {(key, name) for key, name in location.checks if key in self.assets and name in self.check_names}
        yield from (f"check {name} of {'/'.join(key)}" for key, name in sorted(checks - self.checks))
        yield from (
            f"sensor {name}"
            for name, sensor in sorted(location.sensors.items())
            if sensor.source and self.digests.get(sensor.source) == ""
        )

    def difference(self, locations: Iterable[Location]) -> dict[str, list[str]]:
        """`to_come` and `to_go`, for a plan."""
        now = union(locations)
        return {"to_come": [*self.missing(now)], "to_go": [*self.surplus(now)]}

    def idle_sensors(self, location: Location) -> list[str]:
        """Sensors of these sources that do not run; nothing carries their records."""
        ours = ((name, sensor) for name, sensor in location.sensors.items() if self.digests.get(sensor.source))
        return sorted(name for name, sensor in ours if not sensor.running)


def union(locations: Iterable[Location]) -> Location:
    """What several locations hold together; its name and server are the first one's."""
    first, *others = [*locations] or [Location("")]
    merged = copy.deepcopy(first)
    for other in others:
        merged.assets |= other.assets
        merged.sources |= other.sources
        merged.checks |= other.checks
        merged.jobs |= other.jobs
        merged.schedules |= other.schedules
        merged.sensors |= other.sensors
    return merged


EMBEDDED = "cdc_assets"
"""The code location of the embedded stack; CDC_DAGSTER_LOCATION names another one."""
_SHOWN = 6
_POLL_SECONDS = 0.5
# A server that says it has reloaded and is the same one as before will not become another one.
_GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class TakenIn:
    """What the webserver was seen to have: how many of each, of the sources that were asked for."""

    locations: tuple[str, ...]
    assets: int
    checks: int
    jobs: int
    sensors: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For `-o json` and the facts of a step."""
        return {**asdict(self), "locations": list(self.locations), "sensors": list(self.sensors)}


def take_out(url: str, source: str, *, say: Say, timeout: float = 120.0) -> TakenIn:
    """Have the webserver at `url` lose all of the source of that name.
    Raises ServiceError: what is there still, and what to do."""
    return take_in(url, Expected({source: ""}), timeout=timeout, say=say)


def take_in(url: str, expected: Expected, *, timeout: float, say: Say) -> TakenIn:
    """Reload, and wait until Dagster has every asset, check, job and sensor that is expected, running, and none that is not.
    Raises ServiceError: what is not there by then, and what to do; whatever was loaded before still is."""
    began = time.monotonic()
    webserver = Webserver(url, seconds=timeout)
    before = locations_of(webserver.locations(), expected)
    for location in before:
        say(f"Dagster at {webserver.url} reloads {location.name}")
        webserver.reload(location.name)
    now = _await_definitions(webserver, expected, before, until=began + timeout, say=say)
    if stopped := expected.idle_sensors(now):
        raise ServiceError(
            f"{webserver.url} has the definitions, but {', '.join(stopped)} is stopped, and nothing is carried without it: "
            "start it in Dagster (Automation), then repeat the command"
        )
    counts = (len(expected.assets), len(expected.checks), len(expected.jobs), tuple(sorted(expected.sensors)))
    return TakenIn(tuple(sorted(location.name for location in before)), *counts, round(time.monotonic() - began, 2))


def _await_definitions(
    webserver: Webserver, expected: Expected, before: Sequence[Location], *, until: float, say: Say
) -> Location:
    names = sorted(location.name for location in before)
    asked_at, last_said = time.monotonic(), ""
    while True:
        now = [location for location in webserver.locations() if location.name in names]
        lacking, left = [*expected.missing(union(now))], [*expected.surplus(union(now))]
        if not lacking and not left:
            return union(now)
        same = {location.server for location in before} == {location.server for location in now} != {""}
        if time.monotonic() > until or (same and time.monotonic() > asked_at + _GRACE_SECONDS):
            raise ServiceError(_reason(webserver.url, names, lacking, left, same=same))
        if (waiting := f"waiting for {lacking[0] if lacking else 'the end of ' + left[0]}") != last_said:
            say(last_said := waiting)
        time.sleep(_POLL_SECONDS)


def locations_of(locations: Sequence[Location], expected: Expected) -> list[Location]:
    """Those that hold the sources now; for sources that none holds yet the one that is named, ours, or the only one.
    Raises ServiceError: when it cannot be told which one is meant."""
    holding = [
        location for location in locations if any(sensor.source in expected.digests for sensor in location.sensors.values())
    ]
    if holding:
        return holding
    name = settings.lookup("CDC_DAGSTER_LOCATION") or EMBEDDED
    named = [location for location in locations if location.name == name] or (list(locations) if len(locations) == 1 else [])
    if not named:
        there = ", ".join(location.name for location in locations) or "none"
        raise ServiceError(f"no code location {name}; there are: {there}. Set CDC_DAGSTER_LOCATION to the one that is meant")
    return named


def _reason(url: str, locations: list[str], lacking: list[str], left: list[str], *, same: bool) -> str:
    clauses = [f"{url} was asked to reload {', '.join(locations)}, and still"]
    if lacking:
        clauses.append(f"lacks {_some(lacking)}")
    if left:
        clauses.append(f"{'and ' if lacking else ''}has {_some(left)}, which nothing declares any more")
    if same:
        why = (
            "Its code server is the same one (`dagster api grpc` cannot reload): restart it, or take `dagster code-server start`"
        )
    else:
        why = f"Does its code server read another folder than {settings.sources_folder()}?"
    return f"{' '.join(clauses)}. {why}; then: cdc reload"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


_ASK_SECONDS = 30.0


@dataclass(frozen=True)
class RegistryNews:
    """Names of sources; `broken` are findings by file and line, and where there is one the other three are not told.

    `definitions` tells of what CDC_DEFINITIONS names; empty where Dagster has it. `unknown` says why Dagster could not be asked.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    definitions: str = ""
    unknown: str = ""

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone or self.broken or self.definitions or self.unknown)

    def __str__(self) -> str:
        """One line for people, empty where there is nothing to tell; findings are lines of their own."""
        if self.broken:
            return "\n".join(
                ("the registry is broken, Dagster goes on with what it had; mend it, then cdc reload:", *self.broken)
            )
        if self.unknown:
            return f"whether Dagster has the registry as it is now is not known: {self.unknown}"
        clauses = [f"{', '.join(names)} {what}" for names, what in self._by_word() if names]
        if self.definitions:
            clauses.append(self.definitions)
        return f"not in Dagster yet: {'; '.join(clauses)}: cdc reload" if clauses else ""

    def _by_word(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        return (self.new, "new"), (self.changed, "changed"), (self.gone, "no longer declared")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints: a list of names, or one text, per field."""
        return {name: value if isinstance(value, str) else list(value) for name, value in asdict(self).items()}


def registry_news(url: str, folder: Path) -> RegistryNews:
    """What the folder declares, compared with the digests that the loaded sensors carry: one quick question.
    Raises ServiceError: when the webserver cannot be asked."""
    news = compare(folder, Webserver(url, seconds=_ASK_SECONDS).locations(sensors_only=True))
    return replace(news, definitions=news_of_definitions(url))


def compare(folder: Path, locations: Iterable[Location]) -> RegistryNews:
    """What the folder declares, compared with the digests that sensors of these locations carry.

    A Dagster of the user's own may have other registries' sources as well: none of those is told as gone.
    """
    try:
        declared = {source.name: digest(source) for source in load_sources(folder)}
    except RegistryError as error:
        return RegistryNews(broken=tuple(str(finding) for finding in error.findings))
    loaded: dict[str, str] = {}
    ours: set[str] = set()
    for location in locations:
        digests = {sensor.source: sensor.digest for sensor in location.sensors.values() if sensor.digest}
        loaded |= digests
        ours |= digests.keys() if location.name == EMBEDDED else set()
    return RegistryNews(
        new=tuple(sorted(declared.keys() - loaded.keys())),
        changed=tuple(sorted(name for name in declared.keys() & loaded.keys() if declared[name] != loaded[name])),
        gone=tuple(sorted(ours - declared.keys())),
    )
