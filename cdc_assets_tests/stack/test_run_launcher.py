"""A run whose process is gone is told to Dagster's monitoring; one whose process works, or has not begun, is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import WorkerStatus
from dagster._core.test_utils import instance_for_test

from cdc_assets.stack.dagster_instance import WatchedRunLauncher


@dg.job
def anything() -> None: ...


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    launcher = {"module": "cdc_assets.stack.dagster_instance", "class": "WatchedRunLauncher"}
    with instance_for_test(overrides={"run_launcher": launcher}) as instance:
        yield instance


def health(instance: dg.DagsterInstance, pid: int | None) -> WorkerStatus:
    """Of a run that a process of this pid has just reported itself for."""
    run = instance.create_run_for_job(anything, status=dg.DagsterRunStatus.STARTED)
    if pid is not None:
        instance.report_engine_event("Started process for run", run, EngineEventData({"pid": dg.MetadataValue.text(str(pid))}))
    assert isinstance(instance.run_launcher, WatchedRunLauncher)
    return instance.run_launcher.check_run_worker_health(run).status


def test_a_run_whose_process_is_gone_has_failed(instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert health(instance, process.pid) == WorkerStatus.FAILED


def test_a_run_whose_process_works_or_has_not_begun_is_left_alone(instance: dg.DagsterInstance) -> None:
    assert health(instance, os.getpid()) == WorkerStatus.RUNNING
    assert health(instance, None) == WorkerStatus.RUNNING


def test_another_process_of_the_same_number_is_not_the_runs(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.Process.create_time", lambda _: 4_000_000_000.0)
    assert health(instance, os.getpid()) == WorkerStatus.FAILED
