"""Puts the links of a source's chain together: the only file that knows their order, and the table of its checks.

connector → topic → mirror → bronze → silver → ledger, bronze → backup, silver → windows and cuts, backup → drill where they are
declared, and maintenance of the lake. A source of topics has no connector, and no mirror where its topics are on the lake's own
cluster; one whose database is not asked has its columns declared. docs/how-to/add-a-check.md adds a row of CHECKS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_assets.capture.connectors.connector_inventory import connector_owners
from cdc_assets.chain.windowed_results import windows_of
from cdc_assets.defs.backup_assets import build_backup_assets, build_drill_asset, build_drilled_check
from cdc_assets.defs.capture_assets import build_connector_asset, build_mirror_assets, build_topic_assets
from cdc_assets.defs.capture_checks import (
    build_flow_check,
    build_mirror_checks,
    build_model_checks,
    build_preflight_check,
    has_flow_check,
    has_models,
)
from cdc_assets.defs.continuous_run import build_continuous_job
from cdc_assets.defs.lake_assets import build_bronze_assets, build_silver_assets
from cdc_assets.defs.ledger_assets import build_ledger_assets, build_ledger_checks
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.restart_sensors import build_keeper, build_restart_sensor
from cdc_assets.defs.rhythms import (
    build_cut_job,
    build_cut_schedule,
    build_drill_job,
    build_drill_schedule,
    build_ledger_job,
    build_ledger_schedule,
    build_maintenance_job,
    build_maintenance_schedule,
    build_rows_job,
    build_rows_schedule,
    build_volumetry_job,
    build_volumetry_schedule,
    build_windows_job,
    build_windows_schedule,
    build_windows_source_job,
    build_windows_source_schedule,
)
from cdc_assets.defs.row_checks import (
    build_history_checks,
    build_quarantine_checks,
    build_rows_checks,
    has_rows_check,
    tables_with_history,
)
from cdc_assets.defs.schema_and_fresh_checks import build_fresh_checks
from cdc_assets.defs.upkeep_assets import build_cut_asset, build_cuts_check, build_maintained_check, build_maintenance_asset
from cdc_assets.defs.volumetry_checks import build_volumetry_checks
from cdc_assets.defs.windows_assets import build_windows_assets, build_windows_check, build_windows_source_check, windows_to_ask
from cdc_assets.operations.registry_reload import Expected, Say, TakenIn, take_in
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource, digest

# The table of checks: a row per builder, which answers with the checks of one source, or with none.
#
# docs/how-to/add-a-check.md adds one.
Builder = Callable[[BaseSource], Sequence[dg.AssetChecksDefinition]]

CHECKS: tuple[Builder, ...] = (
    build_volumetry_checks,
    lambda source: [build_quarantine_checks(source)],
    lambda source: [build_fresh_checks(source)],
    lambda source: [build_model_checks(source)] if has_models(source) else [],
    lambda source: [build_ledger_checks(source)],
    lambda source: [build_maintained_check(source)],
    lambda source: [build_cuts_check(source)] if source.cuts else [],
    lambda source: [build_drilled_check(source)] if source.drill else [],
    lambda source: [build_preflight_check(source.captured)] if source.captured else [],
    lambda source: [build_flow_check(source)] if has_flow_check(source) else [],
    lambda source: [build_mirror_checks(source)] if names.is_mirrored(source) else [],
    lambda source: [build_history_checks(source)] if tables_with_history(source) else [],
    lambda source: [build_rows_checks(source)] if has_rows_check(source) else [],
    lambda source: [build_windows_check(source)] if windows_of(source) else [],
    lambda source: [build_windows_source_check(source)] if windows_to_ask(source) else [],
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
    rhythms = list(_rhythms(source))
    jobs = [job for job, _ in rhythms]
    if source.mode == "continuous":
        jobs.append(long_run := build_continuous_job(source, declared_in))
        sensors.append(build_keeper(source, long_run))
    return dg.Definitions(
        assets=chain,
        asset_checks=[check for build in CHECKS for check in build(source)],
        jobs=jobs,
        sensors=sensors,
        schedules=[schedule for _, schedule in rhythms],
    )


def _rhythms(source: BaseSource) -> Iterator[tuple[Any, dg.ScheduleDefinition]]:
    """The source's jobs on a declared rhythm, each with its schedule."""
    yield (counts := build_volumetry_job(source)), build_volumetry_schedule(source, counts)
    yield (ledger := build_ledger_job(source)), build_ledger_schedule(source, ledger)
    yield (maintenance := build_maintenance_job(source)), build_maintenance_schedule(source, maintenance)
    if source.cuts is not None:
        yield (cut := build_cut_job(source)), build_cut_schedule(source, cut)
    if source.drill is not None:
        yield (drill := build_drill_job(source)), build_drill_schedule(source, drill)
    if has_rows_check(source):
        yield (rows := build_rows_job(source)), build_rows_schedule(source, rows)
    if windows_of(source):
        yield (windows := build_windows_job(source)), build_windows_schedule(source, windows)
    if windows_to_ask(source):
        yield (sums := build_windows_source_job(source)), build_windows_source_schedule(source, sums)


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
