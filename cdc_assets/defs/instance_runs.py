"""What the Dagster instance knows of runs: tables under way, failures in a row, why steps failed, last materializations.

Sensors and checks ask here before they request work: a table that is in a run is not requested again, and failures in a row make
the pauses longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from cdc_assets.defs.overall_jobs import MENDING_JOBS
from cdc_assets.registry import names
from cdc_assets.registry.names import SOURCE_TAG
from cdc_assets.registry.source_declaration import BaseSource

if TYPE_CHECKING:
    from dagster._utils.error import SerializableErrorInfo

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
_RUNS_LOOKED_AT = 24
_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0


@dataclass(frozen=True)
class SensorRuns:
    """One kind of run that the offsets sensor requests: the tag that names its tables, and the last layer that it carries."""

    tag: str
    layer: str

    def tables(self, run: dg.DagsterRun) -> set[str]:
        """Those that the run was requested for."""
        return set(run.tags.get(self.tag, "").split(",")) - {""}


CARRIED = SensorRuns("cdc/tables", "silver")
BACKED_UP = SensorRuns("cdc/backups", "backup")


NO_PAUSES: Mapping[SensorRuns, Mapping[str, float]] = {CARRIED: {}, BACKED_UP: {}}


def runs_under_way(instance: dg.DagsterInstance) -> Sequence[dg.DagsterRun]:
    """All that have not ended, whoever started them: at rest none, so one question serves all who ask in a tick."""
    return instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY))


def busy_tables(runs: Sequence[dg.DagsterRun], source: BaseSource) -> dict[SensorRuns, frozenset[str]]:
    """Of each kind the tables in a sensor's run among those under way."""
    ours = [run for run in runs if run.tags.get(SOURCE_TAG) == source.name]
    return {kind: frozenset(table for run in ours for table in kind.tables(run)) for kind in (CARRIED, BACKED_UP)}


def run_under_way(instance: dg.DagsterInstance, job: str) -> str | None:
    """The id of a run of the job that has not ended."""
    runs = instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY, job_name=job), limit=1)
    return runs[0].run_id if runs else None


def failure_pauses(instance: dg.DagsterInstance, source: BaseSource, *, now: float) -> dict[SensorRuns, dict[str, float]]:
    """`{kind of run: {table: seconds to wait}}` of the tables that the newest of their runs left without its layer.

    5, 10, 20 … at most 300 after failures one after the other; 0 when the time has passed, or somebody has acted since: by a
    command that changes something, or a job that mends. A table that a failed run has brought to its layer did not fail.
    """
    records = instance.get_run_records(filters=RunsFilter(tags={SOURCE_TAG: source.name}), limit=_RUNS_LOOKED_AT)
    ends = {kind: _pause_ends(instance, records, kind, now=now) for kind in (CARRIED, BACKED_UP)}
    paused = any(end > now for of_kind in ends.values() for _, end in of_kind.values())
    acted = _last_act(instance) if paused else 0.0
    return {
        kind: {table: 0.0 if acted > failed else max(0.0, end - now) for table, (failed, end) in of_kind.items()}
        for kind, of_kind in ends.items()
    }


def _last_act(instance: dg.DagsterInstance) -> float:
    """When somebody last did what may mend a table: in epoch seconds, 0 for never."""
    # Each command that changes something is an observation (cli/command_log), whatever host it ran on.
    observations = instance.fetch_observations(dg.AssetKey(names.COMMANDS), limit=1).records
    jobs = [
        instance.get_run_records(RunsFilter(job_name=job, statuses=[DagsterRunStatus.SUCCESS]), limit=1) for job in MENDING_JOBS
    ]
    return max([0.0, *(record.timestamp for record in observations), *(run.end_time or 0.0 for runs in jobs for run in runs)])


def _pause_ends(
    instance: dg.DagsterInstance, records: Sequence[dg.RunRecord], kind: SensorRuns, *, now: float
) -> dict[str, tuple[float, float]]:
    """By table when it failed last, and when its pause ends."""
    failures: Counter[str] = Counter()
    ended: dict[str, float] = {}
    settled: set[str] = set()
    for record in records:
        if not record.dagster_run.is_finished:
            continue
        tables = kind.tables(record.dagster_run)
        failed = record.dagster_run.status == DagsterRunStatus.FAILURE and tables - settled
        missed: set[str] = set()
        if failed:
            made = dg.DagsterEventType.ASSET_MATERIALIZATION
            keys = [r.asset_key for r in instance.get_records_for_run(record.dagster_run.run_id, of_type=made).records]
            missed = failed - {key.path[-1].removeprefix(f"{kind.layer}_") for key in keys if key and key.path[0] == kind.layer}
        for table in missed - settled:
            failures[table] += 1
            ended.setdefault(table, record.end_time or now)
        settled |= tables - missed
    pauses = {t: min(_FIRST_PAUSE_SECONDS * 2 ** (n - 1), _LONGEST_PAUSE_SECONDS) for t, n in failures.items()}
    return {table: (ended[table], ended[table] + pause) for table, pause in pauses.items()}


def last_materializations(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, dg.EventLogEntry]:
    """The newest materialization of each asset that has one, by one query: a sensor asks for all of its tables each tick."""
    records = instance.get_asset_records([*keys]) if keys else []
    events = {record.asset_entry.asset_key: record.asset_entry.last_materialization for record in records}
    return {key: event for key, event in events.items() if event is not None}


def step_failures(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str]]:
    """By step, in the order in which they failed: what was raised first. None: the run ended before any of its steps did."""
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return [(str(failure.step_key), root_message(failure.get_dagster_event().step_failure_data.error)) for failure in events]


def root_message(error: SerializableErrorInfo | None) -> str:
    """What was raised first, in its own words."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error else "no reason given"
