"""Keeps one long run of a continuous source alive: started, started again when it ended, replaced for newer definitions.

The sensor is the switch: off pauses the source (the run ends by itself), on resumes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import dagster as dg

from cdc_assets.defs.continuous_run import ENDS_TAG, SignOfLife, job_name, keeper_name
from cdc_assets.defs.sensors.recent_runs import UNDER_WAY
from cdc_assets.names import DIGEST_TAG
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.digest import digest

CONTINUOUS_TAG = "cdc/continuous"
"""The source, on its long run. Not names.SOURCE_TAG, by which short runs are counted."""
_TICK_SECONDS = 5
_SILENT_SECONDS = 180.0
"""A run leaves a sign of life every five seconds: so long without one, and its process is gone."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 300.0
_RUNS_LOOKED_AT = 8


def build_keeper(source: BaseSource, job: dg.JobDefinition) -> dg.SensorDefinition:
    """The sensor of the source's continuous job."""
    loaded = digest(source)

    @dg.sensor(
        name=keeper_name(source),
        job_name=job.name,
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        tags={CONTINUOUS_TAG: source.name, DIGEST_TAG: loaded},
        description="Keeps the run of continuous mode alive. Off: the source is paused.",
    )
    def keeper(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        why = why_not_now(context.instance, source, loaded, now=time.time())
        if why:
            return dg.SkipReason(why)
        return dg.RunRequest(tags={CONTINUOUS_TAG: source.name, DIGEST_TAG: loaded})

    return keeper


def why_not_now(instance: dg.DagsterInstance, source: BaseSource, loaded: str, *, now: float) -> str:
    """Why no run is to be started; empty: one is. A run of older definitions is asked to end, one that is gone is ended."""
    filters = dg.RunsFilter(job_name=job_name(source), statuses=UNDER_WAY)
    records = instance.get_run_records(filters=filters, limit=_RUNS_LOOKED_AT)
    life = SignOfLife.read(instance, source)
    alive = []
    for record in records:
        run = record.dagster_run
        if _is_gone(record, life, now=now):
            instance.report_run_failed(run, f"no sign of life for {_SILENT_SECONDS:.0f} s: its process is gone")
            continue
        alive.append(run)
        if run.tags.get(DIGEST_TAG) != loaded and ENDS_TAG not in run.tags:
            instance.add_run_tags(run.run_id, {ENDS_TAG: "newer definitions of the source are loaded"})
    if alive:
        told = f": {life.text}" if life and life.run_id == alive[0].run_id else ""
        return f"run {alive[0].run_id[:8]} is at work{told}"
    pause = _pause(instance.get_run_records(dg.RunsFilter(job_name=job_name(source)), limit=_RUNS_LOOKED_AT), now=now)
    return f"the last run failed, the next one starts in {pause:.0f} s" if pause > 0 else ""


def _is_gone(record: dg.RunRecord, life: SignOfLife | None, *, now: float) -> bool:
    """By its own signs. One that has not begun leaves none: Dagster's monitoring looks after that."""
    if record.start_time is None:
        return False
    own = life.time if life and life.run_id == record.dagster_run.run_id else record.start_time
    return now - max(own, record.start_time) > _SILENT_SECONDS


def _pause(records: Sequence[dg.RunRecord], *, now: float) -> float:
    """Seconds left of the pause after the failures in a row that came last: 5, 10, 20 … at most 300."""
    failures = 0
    for record in records:
        if record.dagster_run.status != dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
    if not failures:
        return 0.0
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** (failures - 1), _LONGEST_PAUSE_SECONDS)
    return (records[0].end_time or now) + pause - now
