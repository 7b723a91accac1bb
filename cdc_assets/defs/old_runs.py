"""Dagster's runs of long ago, with their events and logs: removed each day, but for those that tell what things are by now.

Ticks Dagster removes itself, as dagster.yaml says (`retention`). It has no setting for runs.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from cdc_assets import settings
from cdc_assets.errors import RunsKeptError
from cdc_assets.quantity import quantity

VARIABLE = "CDC_RUNS_KEPT"
"""Days for which ended runs are kept; 0: for ever."""
JOB = "remove_old_runs"
DAYS = 30
OF_LOCATION = ".dagster/repository"
"""The tag of the code location that a run is of: those of others are none of our business."""
MOST, MOST_SECONDS = 20_000, 1_800.0
"""One run of the job removes so many, for so long; the next day's goes on."""
_ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


def days_kept() -> int:
    """What CDC_RUNS_KEPT says.

    Raises:
        RunsKeptError: that is no number of days.
    """
    told = settings.lookup(VARIABLE) or str(DAYS)
    if not told.isdecimal():
        raise RunsKeptError(f"{VARIABLE}={told} is no number of days; 0 keeps runs for ever")
    return int(told)


def build_old_runs(checks: Sequence[dg.AssetCheckKey]) -> tuple[dg.JobDefinition, dg.ScheduleDefinition]:
    """The job that removes them, and its schedule: at night. `checks` are those of the code location."""

    @dg.op(name=f"cdc_{JOB}", description=f"Remove runs that ended more than {VARIABLE} days ago, with their events and logs.")
    def remove(context: dg.OpExecutionContext) -> None:
        location = context.run.tags.get(OF_LOCATION)
        if location is None:
            raise dg.Failure(f"the run has no tag {OF_LOCATION}, so that nobody knows whose runs are to be removed")
        days = days_kept()
        gone = remove_old_runs(context.instance, location, days, checks) if days else 0
        context.log.info("%s of more than %s removed", quantity(gone, "run"), quantity(days, "day"))
        context.add_output_metadata({"cdc/runs_removed": gone, "cdc/days_kept": days})

    @dg.job(name=JOB, description=f"Runs are kept for {VARIABLE} days ({DAYS}).")
    def job() -> None:
        remove()

    status = dg.DefaultScheduleStatus.RUNNING
    return job, dg.ScheduleDefinition(job=job, cron_schedule="40 3 * * *", default_status=status)


def remove_old_runs(instance: dg.DagsterInstance, location: str, days: int, checks: Sequence[dg.AssetCheckKey] = ()) -> int:
    """How many runs of the location are removed. One that an asset's or a check's newest word is of stays."""
    until = datetime.now(timezone.utc) - timedelta(days=days)
    old = RunsFilter(statuses=_ENDED, created_before=until, tags={OF_LOCATION: location})
    found = instance.get_run_ids(filters=old, limit=MOST)
    kept, gone, by = _newest_words(instance, checks) if found else frozenset(), 0, time.monotonic() + MOST_SECONDS
    for run_id in found:
        if run_id in kept:
            continue
        if time.monotonic() > by:
            break
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        instance.delete_run(run_id)
        gone += 1
    return gone


def _newest_words(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]) -> frozenset[str]:
    entries = [record.asset_entry for record in instance.get_asset_records()]
    events = [event for entry in entries for event in (entry.last_materialization, entry.last_observation) if event]
    told = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks) if checks else {}
    return frozenset({event.run_id for event in events} | {record.run_id for record in told.values()})
