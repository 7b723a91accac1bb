"""Puts the links of a source's chain together: the only file that knows their order, and the table of its checks.

connector → topic → mirror → bronze → silver → ledger, bronze → backup, silver → windows and cuts, backup → drill where they are
declared, and maintenance of the lake. A source of topics has no connector, and no mirror where its topics are on the lake's own
cluster; one whose database is not asked has its columns declared. docs/how-to/add-a-check.md adds a row of CHECKS.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_assets.capture.connectors.connector_inventory import connector_owners
from cdc_assets.chain.windowed_results import windows_of
from cdc_assets.clients.source_chain import Say
from cdc_assets.defs.asset_steps import CheckStep
from cdc_assets.defs.capture_assets import (
    build_connector_asset,
    build_mirror_assets,
    build_topic_assets,
    flow_check,
    mirror_check,
    model_check,
    preflight_check,
)
from cdc_assets.defs.continuous_run import build_continuous_job
from cdc_assets.defs.lake_assets import batch_check, build_bronze_assets, build_silver_assets, build_windows_assets, sums_check
from cdc_assets.defs.ledger_assets import build_ledger_assets, ledger_check
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.restart_sensors import build_keeper, build_restart_sensor
from cdc_assets.defs.rhythms import RHYTHMS
from cdc_assets.defs.schema_and_fresh_checks import fresh_check
from cdc_assets.defs.upkeep_assets import (
    build_backup_assets,
    build_cut_asset,
    build_drill_asset,
    build_maintenance_asset,
    cuts_check,
    drill_check,
    maintenance_check,
)
from cdc_assets.defs.volumetry_checks import (
    connector_check,
    history_check,
    manifest_check,
    parity_check,
    quarantine_check,
    rows_check,
    silver_check,
)
from cdc_assets.operations.registry_reload import Expected, TakenIn, take_in
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource, digest

# The steps of checks, each with its rows of check_specs.
#
# docs/how-to/add-a-check.md adds one.
CHECKS: tuple[CheckStep[Any], ...] = (
    connector_check,
    parity_check,
    silver_check,
    manifest_check,
    quarantine_check,
    fresh_check,
    model_check,
    ledger_check,
    maintenance_check,
    cuts_check,
    drill_check,
    preflight_check,
    flow_check,
    mirror_check,
    history_check,
    rows_check,
    batch_check,
    sums_check,
)


def build_source_defs(source: BaseSource, declared_in: Path | None = None) -> dg.Definitions:
    """The asset chains, checks, sensor and schedule of one source; `declared_in` is the file or folder that declares it."""
    chain = [build_connector_asset(source.captured)] if source.captured else []
    chain.append(build_topic_assets(source))
    if names.is_mirrored(source):
        chain.append(build_mirror_assets(source))
    chain += [build_bronze_assets(source), build_silver_assets(source), build_ledger_assets(source)]
    chain.append(build_maintenance_asset(source))
    if windows_of(source):
        chain.append(build_windows_assets(source))
    if source.cuts is not None:
        chain.append(build_cut_asset(source))
    if source.backup is not None:
        chain.append(build_backup_assets(source))
    if source.drill is not None:
        chain.append(build_drill_asset(source))
    sensors = [build_offsets_sensor(source, declared_in)]
    if connector_owners([source]) and source.managed_by == "cdc":  # else the operator restarts (spec.autoRestart)
        sensors.append(build_restart_sensor(source))
    rhythms = [job_and_schedule for rhythm in RHYTHMS for job_and_schedule in rhythm.build(source)]
    jobs: list[Any] = [job for job, _ in rhythms]
    if source.mode == "continuous":
        jobs.append(long_run := build_continuous_job(source, declared_in))
        sensors.append(build_keeper(source, long_run))
    return dg.Definitions(
        assets=chain,
        asset_checks=[check for step in CHECKS for check in step.build(source)],
        jobs=jobs,
        sensors=sensors,
        schedules=[schedule for _, schedule in rhythms],
    )


def definitions_of(sources: Iterable[BaseSource], gone: Iterable[str] = ()) -> Expected:
    """Of these sources everything, of those called `gone` nothing."""
    declared = list(sources)
    built = [build_source_defs(source) for source in declared]
    graph = dg.Definitions.merge(*built, dg.Definitions(resources={"platform": PlatformResource()})).resolve_asset_graph()
    return Expected(
        digests={**dict.fromkeys(gone, ""), **{source.name: digest(source) for source in declared}},
        assets=frozenset(tuple(key.path) for key in graph.get_all_asset_keys()),
        checks=frozenset((tuple(key.asset_key.path), key.name) for key in graph.asset_check_keys),
        check_names=frozenset(spec.name for step in CHECKS for spec in step.specs),
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
    Raises ServiceError: what is not there by then, and what to do; whatever was loaded before still is."""
    return take_in(url, definitions_of(sources, gone), timeout=timeout, say=say)


def take_in_step(url: str, sources: Iterable[BaseSource], say: Say) -> dict[str, Any]:
    """The same, as a step of an onboarding asks for it and notes it. Raises ServiceError: as `take_in_sources`."""
    return take_in_sources(url, sources, say=say).to_json()
