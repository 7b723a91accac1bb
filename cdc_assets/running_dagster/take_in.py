"""Takes what is declared into the running Dagster: asks for a reload, and believes only what the webserver then has.

The one place that reloads: `cdc onboard`, `cdc offboard`, `cdc reload`, `cdc up` and whoever removes a source come here by
defs.declared_chains, which tells what is expected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import DefinitionsError
from cdc_assets.running_dagster.expected import Expected, union
from cdc_assets.running_dagster.webserver import Location, Webserver

Say = Callable[[str], None]
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


def take_in(url: str, expected: Expected, *, timeout: float, say: Say) -> TakenIn:
    """Reload, and wait until Dagster has every asset, check, job and sensor that is expected, running, and none that is not.

    Raises:
        DefinitionsError: what is not there by then, and what to do; whatever was loaded before still is.
    """
    began = time.monotonic()
    webserver = Webserver(url, seconds=timeout)
    before = locations_of(webserver.locations(), expected)
    for location in before:
        say(f"Dagster at {webserver.url} reloads {location.name}")
        webserver.reload(location.name)
    now = _await_definitions(webserver, expected, before, until=began + timeout, say=say)
    if stopped := expected.idle_sensors(now):
        raise DefinitionsError(
            f"{webserver.url} has the definitions, but {', '.join(stopped)} is stopped, and nothing is carried without it: "
            "start it in Dagster (Automation), then repeat the command"
        )
    counts = (len(expected.assets), len(expected.checks), len(expected.jobs), tuple(sorted(expected.sensors)))
    return TakenIn(tuple(sorted(found.name for found in before)), *counts, round(time.monotonic() - began, 2))


def _await_definitions(
    webserver: Webserver, expected: Expected, before: Sequence[Location], *, until: float, say: Say
) -> Location:
    """What the webserver has, once that is all that is expected."""
    names = sorted(found.name for found in before)
    asked, told = time.monotonic(), ""
    while True:
        now = [found for found in webserver.locations() if found.name in names]
        lacking, left = [*expected.missing(union(now))], [*expected.surplus(union(now))]
        if not lacking and not left:
            return union(now)
        same = {found.server for found in before} == {found.server for found in now} != {""}
        if time.monotonic() > until or (same and time.monotonic() > asked + _GRACE_SECONDS):
            raise DefinitionsError(_reason(webserver.url, names, lacking, left, same=same))
        if (waiting := f"waiting for {lacking[0] if lacking else 'the end of ' + left[0]}") != told:
            say(told := waiting)
        time.sleep(_POLL_SECONDS)


def locations_of(locations: Sequence[Location], expected: Expected) -> list[Location]:
    """Those that hold the sources now; for sources that none holds yet the one that is named, ours, or the only one.

    Raises:
        DefinitionsError: when it cannot be told which one is meant.
    """
    holding = [found for found in locations if any(sensor.source in expected.digests for sensor in found.sensors.values())]
    if holding:
        return holding
    wanted = settings.lookup("CDC_DAGSTER_LOCATION") or EMBEDDED
    named = [found for found in locations if found.name == wanted] or (list(locations) if len(locations) == 1 else [])
    if not named:
        there = ", ".join(found.name for found in locations) or "none"
        raise DefinitionsError(
            f"no code location {wanted}; there are: {there}. Set CDC_DAGSTER_LOCATION to the one that is meant"
        )
    return named


def _reason(url: str, locations: list[str], lacking: list[str], left: list[str], *, same: bool) -> str:
    told = [f"{url} was asked to reload {', '.join(locations)}, and still"]
    if lacking:
        told.append(f"lacks {_some(lacking)}")
    if left:
        told.append(f"{'and ' if lacking else ''}has {_some(left)}, which nothing declares any more")
    if same:
        why = (
            "Its code server is the same one (`dagster api grpc` cannot reload): restart it, or take `dagster code-server start`"
        )
    else:
        why = f"Does its code server read another folder than {settings.sources_folder()}?"
    return f"{' '.join(told)}. {why}; then: cdc reload"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
