"""What the Dagster instance knows of a source's runs: tables under way, failures in a row, last materializations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from cdc_assets.registry.models import BaseSource

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
_RUNS_LOOKED_AT = 16
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0


def busy_tables(instance: dg.DagsterInstance, source: BaseSource) -> frozenset[str]:
    """Tables in a sensor's run that has not ended."""
    runs = instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY, tags={"cdc/source": source.name}))
    return frozenset(table for run in runs for table in run.tags.get("cdc/tables", "").split(",") if table)


def run_under_way(instance: dg.DagsterInstance, job: str) -> str | None:
    """The id of a run of the job that has not ended."""
    runs = instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY, job_name=job), limit=1)
    return runs[0].run_id if runs else None


def failure_pauses(instance: dg.DagsterInstance, source: BaseSource, *, now: float) -> dict[str, float]:
    """`{table: seconds to wait}` of the tables that the newest of their runs left without silver.

    5, 10, 20 … at most 300 after failures one after the other; 0 when the time has passed. A table that a failed run has
    brought to silver did not fail.
    """
    records = instance.get_run_records(filters=RunsFilter(tags={"cdc/source": source.name}), limit=_RUNS_LOOKED_AT)
    failures: Counter[str] = Counter()
    ended: dict[str, float] = {}
    settled: set[str] = set()
    for record in records:
        if not record.dagster_run.is_finished:
            continue
        tables = set(record.dagster_run.tags.get("cdc/tables", "").split(",")) - {""}
        failed = record.dagster_run.status == DagsterRunStatus.FAILURE and tables - settled
        missed = failed - _silver_tables(instance, record.dagster_run.run_id) if failed else set()
        for table in missed - settled:
            failures[table] += 1
            ended.setdefault(table, record.end_time or now)
        settled |= tables - missed
    pauses = {t: min(_FIRST_PAUSE_SECONDS * 2 ** (n - 1), _LONGEST_PAUSE_SECONDS) for t, n in failures.items()}
    return {table: max(0.0, ended[table] + pause - now) for table, pause in pauses.items()}


def _silver_tables(instance: dg.DagsterInstance, run_id: str) -> set[str]:
    """Tables whose silver the run has materialized."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    keys = [record.asset_key for record in records]
    return {key.path[-1].removeprefix("silver_") for key in keys if key and key.path[0] == "silver"}


def last_materializations(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, dg.EventLogEntry]:
    """The newest materialization of each asset that has one, by one query: a sensor asks for all of its tables each tick."""
    records = instance.get_asset_records([*keys]) if keys else []
    found = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
    return {key: event for key, event in found.items() if event is not None}
