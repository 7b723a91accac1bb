"""A job of a source on a declared rhythm: what counting, comparing and the ledger have in common."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.dropped_ticks import why_dropped
from cdc_assets.defs.sensors.recent_runs import last_materializations, run_under_way
from cdc_assets.registry.models import BaseSource


def whole_minutes(every: timedelta) -> int:
    """`every` in minutes, rounded, at least one."""
    return max(1, round(every.total_seconds() / 60))


def cron(every: timedelta, minute: int = 0) -> str:
    """At least as often: every so many minutes of an hour, hours of a day, or days of a month.

    `minute`: of the day, at which a rhythm of days begins.
    """
    minutes = whole_minutes(every)
    hours, days = minutes // 60, minutes // 1440
    if not hours:
        return f"*/{minutes} * * * *"
    return f"0 */{hours} * * *" if not days else f"{minute % 60} {minute // 60} */{min(days, 31)} * *"


def rhythmic(
    job: UnresolvedAssetJobDefinition,
    source: BaseSource,
    every: timedelta,
    *,
    why_skip: Callable[[dg.DagsterInstance], str | None] = lambda _: None,
    due: Callable[[dg.DagsterInstance], Sequence[dg.AssetCheckKey] | None] = lambda _: None,
    minute: int = 0,
) -> dg.ScheduleDefinition:
    """`<job>_schedule`, from the first table in silver on; `why_skip` says why a tick is not worth a run.

    One run of the job at a time: on a machine that is too slow for the rhythm, a run per tick would wait for the one before it,
    and each takes memory and processor meanwhile (ten runs of one job were seen, `dagster-code` at 2.1 GB).

    `due`: the checks that it is for, where not for all of the job's. `minute` as in cron.
    """

    @dg.schedule(
        name=f"{job.name}_schedule",
        job=job,
        cron_schedule=cron(every, minute),
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        silver = [asset_key("silver", source, table) for table in source.tables]
        if not last_materializations(context.instance, silver):
            return dg.SkipReason(f"nothing of {source.name} is in silver yet")
        if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(every)):
            return dg.SkipReason(missed)
        if run := run_under_way(context.instance, job.name):
            return dg.SkipReason(f"run {run} of {job.name} has not ended; the next tick after its end is run")
        if reason := why_skip(context.instance):
            return dg.SkipReason(reason)
        return dg.RunRequest(asset_check_keys=due(context.instance))

    return tick
