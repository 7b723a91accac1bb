"""Runs that failed while the main job waits for the sensors: told at once, and the end of waiting when one goes on failing.

The sensors ask again for what a failed run has not carried, so one failure is news and no end; only when the same step fails
time after time does nothing that is waited for come any more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.defs.step_failures import step_failures
from cdc_assets.main_job.dagster_runs import RunFailedError

if TYPE_CHECKING:
    import dagster as dg

# A Spark or a broker that is started again costs two or three runs.
_IN_A_ROW = 6
_ASK_SECONDS = 3.0


class FailedRuns:
    """The runs that failed since it was made, each told once."""

    def __init__(self, instance: dg.DagsterInstance, tell: Callable[[str], None]) -> None:
        """`tell` prints a line for people."""
        self._instance, self._tell = instance, tell
        self._since, self._asked = datetime.now(timezone.utc), 0.0
        self._seen: set[str] = set()
        self._in_a_row: Counter[str] = Counter()

    def look(self) -> None:
        """Tell of new ones; asks every few seconds only.

        Raises:
            RunFailedError: when a step failed six times with no success between; its reason and the run's page.
        """
        if time.monotonic() < self._asked + _ASK_SECONDS:
            return
        self._asked = time.monotonic()
        for run_id, failures in self._new_ends():
            for step, reason in failures:
                self._in_a_row[step] += 1
                page = f"{settings.address('CDC_DAGSTER_URL')}/runs/{run_id}"
                if self._in_a_row[step] >= _IN_A_ROW:
                    raise RunFailedError(f"{step} failed {_IN_A_ROW} times in a row: {reason}; see {page} and ./cdc status")
                self._tell(f"{step} failed, the sensor asks again: {reason}; see {page}")

    def _new_ends(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Runs that have ended meanwhile, oldest first, each with its failed steps; successes end a step's row."""
        import dagster as dg

        ended = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS]
        found = self._instance.get_run_records(dg.RunsFilter(statuses=ended, updated_after=self._since), ascending=True)
        for record in found:
            run = record.dagster_run
            if run.run_id in self._seen:
                continue
            self._seen.add(run.run_id)
            if self._in_a_row:
                for event in self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS):
                    self._in_a_row.pop(str(event.step_key), None)
            if run.status == dg.DagsterRunStatus.FAILURE:
                yield run.run_id, self._failed_steps(run.run_id)

    def _failed_steps(self, run_id: str) -> list[tuple[str, str]]:
        return step_failures(self._instance, run_id) or [("a run", "ended before any of its steps; its page says why")]
