"""What is built of declarations, taken into the running Dagster: that is exactly what it must have afterwards.

take_in_sources(url, sources, gone=("shop",))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dagster as dg

from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.digest import digest
from cdc_assets.running_dagster.expected import Expected
from cdc_assets.running_dagster.take_in import Say, TakenIn, take_in


def definitions_of(sources: Iterable[BaseSource], gone: Iterable[str] = ()) -> Expected:
    """Of these sources everything, of those called `gone` nothing."""
    declared = list(sources)
    built = [build_source_defs(source) for source in declared]
    graph = dg.Definitions.merge(*built, dg.Definitions(resources={"platform": PlatformResource()})).resolve_asset_graph()
    return Expected(
        digests={**dict.fromkeys(gone, ""), **{source.name: digest(source) for source in declared}},
        assets=frozenset(tuple(key.path) for key in graph.get_all_asset_keys()),
        checks=frozenset((tuple(key.asset_key.path), key.name) for key in graph.asset_check_keys),
        jobs=frozenset(str(job.name) for defs in built for job in defs.jobs or ()),
        schedules=frozenset(str(schedule.name) for defs in built for schedule in defs.schedules or ()),
        sensors=frozenset(str(sensor.name) for defs in built for sensor in defs.sensors or ()),
    )


def take_in_sources(
    url: str,
    sources: Iterable[BaseSource],
    *,
    gone: Iterable[str] = (),
    timeout: float = 120.0,
    say: Say = lambda _: None,
) -> TakenIn:
    """Have the webserver at `url` take in all of `sources`, and lose all of `gone`.

    Raises:
        DefinitionsError: what is not there by then, and what to do; whatever was loaded before still is.
    """
    return take_in(url, definitions_of(sources, gone), timeout=timeout, say=say)


def take_in_step(url: str, sources: Iterable[BaseSource], say: Say) -> dict[str, Any]:
    """The same, as a step of an onboarding asks for it and notes it.

    Raises:
        DefinitionsError: as `take_in_sources`.
    """
    return take_in_sources(url, sources, say=say).to_json()
