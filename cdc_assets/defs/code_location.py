"""All chains of a registry as one code location: with the jobs over all sources, and what they run on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import dagster as dg

from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.jobs import build_overall_jobs
from cdc_assets.defs.old_runs import build_old_runs
from cdc_assets.defs.onboarding_jobs import build_onboarding_jobs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.replay_job import build_replay_job
from cdc_assets.defs.restore_job import build_restore_job
from cdc_assets.defs.sensors.alerts import build_alert_sensors
from cdc_assets.defs.sensors.traces import build_trace_sensors
from cdc_assets.registry.models import BaseSource


def build_code_location(sources: Iterable[BaseSource], declared_in: Path | None = None) -> dg.Definitions:
    """The chains of the sources; a run works step after step in one process: its steps wait for Spark, Kafka and Connect."""
    chains = [build_source_defs(source, declared_in) for source in sources]
    old_runs, each_night = build_old_runs(
        [key for chain in chains for check in chain.asset_checks or () for key in check.check_keys]
    )
    return dg.Definitions.merge(
        *chains,
        dg.Definitions(
            jobs=[*build_overall_jobs(), *build_onboarding_jobs(), build_replay_job(), build_restore_job(), old_runs],
            schedules=[each_night],
            sensors=[*build_alert_sensors(), *build_trace_sensors()],
            resources={"platform": PlatformResource()},
            executor=dg.in_process_executor,
        ),
    )
