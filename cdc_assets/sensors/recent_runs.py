"""What the Dagster instance knows of a source's runs: tables under way, failures in a row, last materializations."""

from __future__ import annotations

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from cdc_assets.registry.models import BaseSource

_UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0


def busy_tables(instance: dg.DagsterInstance, source: BaseSource) -> frozenset[str]:
    """Tables in a sensor's run that has not ended."""
    runs = instance.get_runs(filters=RunsFilter(statuses=_UNDER_WAY, tags={"cdc/source": source.name}))
    return frozenset(table for run in runs for table in run.tags.get("cdc/tables", "").split(",") if table)


def failure_pause(instance: dg.DagsterInstance, source: BaseSource, *, now: float) -> float:
    """Seconds to wait after runs that failed one after the other: 5, 10, 20 … at most 300; 0 when the last succeeded."""
    records = instance.get_run_records(filters=RunsFilter(tags={"cdc/source": source.name}), limit=8)
    failures, ended = 0, None
    for record in records:
        if record.dagster_run.status != DagsterRunStatus.FAILURE:
            break
        failures += 1
        ended = ended or record.end_time
    if not failures or ended is None:
        return 0.0
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** (failures - 1), _LONGEST_PAUSE_SECONDS)
    return max(0.0, ended + pause - now)


def last_materialized(instance: dg.DagsterInstance, key: dg.AssetKey) -> float | None:
    """When the asset was last materialized (epoch seconds), or None."""
    event = instance.get_latest_materialization_event(key)
    return event.timestamp if event else None
