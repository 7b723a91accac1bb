"""Puts the links of a source's chains together: the only file that knows their order.

connector → topic → mirror → bronze → silver → ledger, bronze → backup, silver → windows and cuts, backup → drill where they are
declared, and maintenance of the lake. A source of topics has no connector, and no mirror where its topics are on the lake's own
cluster; one whose database is not asked has its columns declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.defs.assets.backup import build_backup_assets
from cdc_assets.defs.assets.bronze import build_bronze_assets
from cdc_assets.defs.assets.connector import build_connector_asset
from cdc_assets.defs.assets.drill import build_drill_asset
from cdc_assets.defs.assets.ledger import build_ledger_assets
from cdc_assets.defs.assets.maintenance import build_maintenance_asset
from cdc_assets.defs.assets.mirrors import build_mirror_assets
from cdc_assets.defs.assets.silver import build_silver_assets
from cdc_assets.defs.assets.source_cut import build_cut_asset
from cdc_assets.defs.assets.topics import build_topic_assets
from cdc_assets.defs.assets.windowed_results import build_windows_assets
from cdc_assets.defs.checks.builders import CHECKS
from cdc_assets.defs.checks.reconciled_two_step import has_rows_check
from cdc_assets.defs.checks.windowed_source import windows_to_ask
from cdc_assets.defs.continuous_run import build_continuous_job
from cdc_assets.defs.sensors.auto_restart import build_restart_sensor
from cdc_assets.defs.sensors.cut_schedule import build_cut_job, build_cut_schedule
from cdc_assets.defs.sensors.drill_schedule import build_drill_job, build_drill_schedule
from cdc_assets.defs.sensors.kafka_offsets import build_offsets_sensor
from cdc_assets.defs.sensors.keep_continuous import build_keeper
from cdc_assets.defs.sensors.ledger_schedule import build_ledger_job, build_ledger_schedule
from cdc_assets.defs.sensors.maintenance_schedule import build_maintenance_job, build_maintenance_schedule
from cdc_assets.defs.sensors.rows_schedule import build_rows_job, build_rows_schedule
from cdc_assets.defs.sensors.volumetry_schedule import build_volumetry_job, build_volumetry_schedule
from cdc_assets.defs.sensors.windows_schedule import (
    build_windows_job,
    build_windows_schedule,
    build_windows_source_job,
    build_windows_source_schedule,
)
from cdc_assets.registry.models import BaseSource
from cdc_assets.windowed.refine_windows import windows_of


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
