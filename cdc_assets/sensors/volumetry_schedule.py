"""The volumetry checks on their declared rhythm: one job per source, one run for all its tables."""

from datetime import timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.checks.flow import flow_key, has_flow_check
from cdc_assets.checks.mirror import build_mirror_checks
from cdc_assets.checks.preflight import preflight_key
from cdc_assets.checks.quarantine import build_quarantine_checks
from cdc_assets.checks.volumetry import build_volumetry_checks
from cdc_assets.registry.models import BaseSource, Source
from cdc_assets.sensors.dropped_ticks import why_dropped
from cdc_assets.sensors.recent_runs import last_materialized


def job_name(source: BaseSource) -> str:
    """The job that runs all volumetry checks of a source."""
    return f"volumetry_{source.name}"


def whole_minutes(every: timedelta) -> int:
    """At least one."""
    return max(1, round(every.total_seconds() / 60))


def cron(every: timedelta) -> str:
    """At least as often: every so many minutes of an hour, hours of a day, or days of a month."""
    minutes = whole_minutes(every)
    hours, days = minutes // 60, minutes // 1440
    if not hours:
        return f"*/{minutes} * * * *"
    return f"0 */{hours} * * *" if not days else f"0 0 */{min(days, 31)} * *"


def build_volumetry_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    keys = {*build_volumetry_checks(source).check_keys, *build_quarantine_checks(source).check_keys}
    if has_flow_check(source):
        keys.add(flow_key(source))
    if isinstance(source, Source):
        keys.add(preflight_key(source))
    if names.is_mirrored(source):
        keys |= set(build_mirror_checks(source).check_keys)
    return dg.define_asset_job(
        job_name(source),
        selection=dg.AssetSelection.checks(*sorted(keys, key=str)),
        description="Compare the counts of the chain.",
    )


def build_volumetry_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """At the shortest rhythm that a table of the source declares, in whole minutes."""
    shortest = min((table.volumetry or source.volumetry).every for table in source.tables)

    @dg.schedule(
        name=f"volumetry_{source.name}_schedule",
        job=job,
        cron_schedule=cron(shortest),
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def volumetry(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        silver = (dg.AssetKey(names.asset_key("silver", source, table)) for table in source.tables)
        if not any(last_materialized(context.instance, key) for key in silver):
            return dg.SkipReason(f"nothing of {source.name} is in silver yet")
        if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(shortest)):
            return dg.SkipReason(missed)
        return dg.RunRequest()

    return volumetry
