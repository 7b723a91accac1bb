"""The stack's own Dagster instance, opened from this process as its runs do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.errors import BenchError
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.stack.home import Home

if TYPE_CHECKING:
    import dagster as dg

_PLACE = {"repositoryName": "__repository__", "repositoryLocationName": "cdc_assets"}
_SENSOR = "query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor { id sensorState { status } } } }"
_OFF = "mutation($id: String!) { stopSensor(id: $id) { ... on StopSensorMutationResult { instigationState { status } } } }"
_ON = "mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) { ... on Sensor { sensorState { status } } } }"

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
        DagsterAwayError: the webserver does not answer.
    """
    dagster, selector = DagsterAnswers(), {"sensorName": name, **_PLACE}
    found = dagster.ask(_SENSOR, s=selector)["sensorOrError"]
    was_on = found["sensorState"]["status"] == "RUNNING"
    if was_on:
        dagster.ask(_OFF, id=found["id"])
    try:
        yield
    finally:
        if was_on:
            dagster.ask(_ON, s=selector)


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
