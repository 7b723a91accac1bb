"""Runs whose process is gone are found: after a kill of the stack, or of its machine, nobody else would ever end them.

Dagster's code server tells when a run of its own dies. One that died with it stays STARTED, its tables count as in a run, and
the sensor waits for it for good. Dagster's run monitoring asks the launcher about each run under way, which Dagster's own
launcher does not answer (dagster._core.launcher.DefaultRunLauncher).
"""

from __future__ import annotations

import dagster as dg
import psutil
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from typing_extensions import override

_BEFORE_ITS_REPORT = 1.0
"""Seconds by which clocks may differ: a process reports itself after it has begun."""


class WatchedRunLauncher(DefaultRunLauncher):
    """Dagster's own, for runs that are processes of this machine."""

    @override
    @property
    def supports_check_run_worker_health(self) -> bool:
        """It does: a run is a process of this machine."""
        return True

    @override
    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process that has reported itself for the run is there; one that has not yet is taken to be."""
        found = _process_of(self._instance, run)
        if found is None or _is_there(*found):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        said = f"its process {found[0]} is gone: it was killed, or the stack or the machine was stopped meanwhile"
        return CheckRunHealthResult(WorkerStatus.FAILED, said)


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int, float] | None:
    """Its pid, and when it told that (epoch seconds)."""
    told = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
    for record in told:
        event = record.event_log_entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event else None
        if pid is not None:
            return int(str(pid.value)), record.event_log_entry.timestamp
    return None


def _is_there(pid: int, told: float) -> bool:
    """Not another process that was given the same number later."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= told + _BEFORE_ITS_REPORT
    except psutil.NoSuchProcess:
        return False
