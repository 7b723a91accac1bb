"""The stack's own Dagster instance, opened from this process as its runs do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.bench.errors import BenchError
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.registry import settings
from cdc_assets.stack.home import Home

if TYPE_CHECKING:
    import dagster as dg

_PLACE = {"repositoryName": "__repository__", "repositoryLocationName": "cdc_assets"}


@dataclass(frozen=True)
class _Switch:
    """How a sensor or a schedule is asked for, and turned off and on."""

    asked: str
    off: str
    on: str


_SENSOR = _Switch(
    "query($s: SensorSelector!) "
    "{ found: sensorOrError(sensorSelector: $s) { ... on Sensor { id state: sensorState { status } } } }",
    "mutation($id: String!) { stopSensor(id: $id) { ... on StopSensorMutationResult { instigationState { status } } } }",
    "mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) { ... on Sensor { sensorState { status } } } }",
)
_SCHEDULE = _Switch(
    "query($s: ScheduleSelector!) "
    "{ found: scheduleOrError(scheduleSelector: $s) { ... on Schedule { id state: scheduleState { status } } } }",
    "mutation($id: String!) { stopRunningSchedule(id: $id) { ... on ScheduleStateResult { scheduleState { status } } } }",
    "mutation($s: ScheduleSelector!) "
    "{ startSchedule(scheduleSelector: $s) { ... on ScheduleStateResult { scheduleState { status } } } }",
)
_STATUSES = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_REST_WITHIN = 900.0


@contextmanager
def open_instance(home: Home) -> Iterator[dg.DagsterInstance]:
    """Runs and events, in the stack's PostgreSQL."""
    import dagster as dg

    settings.export_stack_environment()
    os.environ.setdefault("CDC_DAGSTER_DB_PASSWORD", home.private("dagster_db_password"))
    with dg.DagsterInstance.get() as instance:
        yield instance


@contextmanager
def without_sensor(name: str) -> Iterator[None]:
    """The sensor's switch is off for the block, and on again afterwards if it was.

    Raises:
        ServiceError: the webserver does not answer.
    """
    with _turn_off(_SENSOR, {"sensorName": name, **_PLACE}):
        yield


@contextmanager
def without_schedule(name: str) -> Iterator[None]:
    """The same of a schedule."""
    with _turn_off(_SCHEDULE, {"scheduleName": name, **_PLACE}):
        yield


@contextmanager
def _turn_off(switch: _Switch, selector: dict[str, str]) -> Iterator[None]:
    dagster = DagsterAnswers()
    found = dagster.ask(switch.asked, s=selector)["found"]
    was_on = found["state"]["status"] == "RUNNING"
    if was_on:
        dagster.ask(switch.off, id=found["id"])
    try:
        yield
    finally:
        if was_on:
            dagster.ask(switch.on, s=selector)


def await_rest(instance: dg.DagsterInstance) -> None:
    """Until no run is under way.

    Raises:
        BenchError: some run does not end.
    """
    import dagster as dg

    statuses = [dg.DagsterRunStatus(status) for status in _STATUSES]
    until = time.monotonic() + _REST_WITHIN
    while runs := instance.get_runs(filters=dg.RunsFilter(statuses=statuses), limit=1):
        if time.monotonic() > until:
            raise BenchError(f"Dagster's run {runs[0].run_id} is under way for more than {_REST_WITHIN:.0f} s: ./cdc status")
        time.sleep(0.5)
