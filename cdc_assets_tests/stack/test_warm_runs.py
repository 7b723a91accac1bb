"""Runs of the embedded stack's code server are forks of one process that has the imports, and end as Dagster's runs do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import psutil
import pytest

from cdc_assets.stack import run_preload
from cdc_assets_tests.support.live.clusters import until

DEFINITIONS = """
import json, os, sys, threading
from pathlib import Path
import dagster as dg

LOADED_IN = os.getpid()
os.environ.setdefault("LOADED_BY_THE_SERVER", str(LOADED_IN))

@dg.op
def tell(context):
    heavy = ["pyspark.sql.connect.session", "deltalake", "pyarrow.dataset", "confluent_kafka", "psycopg"]
    there = [name for name in heavy if name in sys.modules]
    facts = {"pid": os.getpid(), "parent": os.getppid(), "there": there, "threads": threading.active_count()}
    facts["server"] = int(os.environ["LOADED_BY_THE_SERVER"])
    (Path(__file__).parent / f"{context.run_id}.json").write_text(json.dumps(facts))

@dg.op
def hang():
    threading.Event().wait()

@dg.op
def die():
    os._exit(9)

@dg.job(executor_def=dg.in_process_executor)
def telling():
    tell()

@dg.job(executor_def=dg.in_process_executor)
def hanging():
    hang()

@dg.job(executor_def=dg.in_process_executor)
def dying():
    die()

defs = dg.Definitions(jobs=[telling, hanging, dying])
"""
Launch = Callable[[str], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an instance that queues no runs, as the stack's."""
    made = tmp_path_factory.mktemp("warm")
    coordinator = {"module": "dagster.core.run_coordinator", "class": "DefaultRunCoordinator"}
    (made / "dagster.yaml").write_text(json.dumps({"telemetry": {"enabled": False}, "run_coordinator": coordinator}))
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[psutil.Process]:
    """A proxy with its server, as the stack starts them."""
    (folder / "made.py").write_text(DEFINITIONS)
    (folder / "sources").mkdir()
    (folder / "workspace.yaml").write_text(json.dumps({"load_from": [{"grpc_server": {"socket": str(folder / "s")}}]}))
    command = ["code-server", "start", "--python-file", str(folder / "made.py"), "--socket", str(folder / "s")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cdc_assets.stack.warm_runs", *command],
            env=environment(folder),
            stdout=log,
            stderr=log,
        )
        until(lambda: process.poll() is not None or "Started Dagster code proxy server" in (folder / "log").read_text())
        yield psutil.Process(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(180)


def environment(folder: Path) -> dict[str, str]:
    roots = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    own = {"DAGSTER_HOME": folder, "CDC_SOURCES": folder / "sources", "CDC_HOME": folder / "home", "PYTHONPATH": roots}
    return {**os.environ, **{name: str(value) for name, value in own.items()}, "DAGSTER_DISABLE_TELEMETRY": "yes"}


@pytest.fixture
def instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(folder)) as opened:
        yield opened


@pytest.fixture
def launch(server: psutil.Process, folder: Path, instance: dg.DagsterInstance) -> Launch:
    """Launch a job by the code server, as sensors and the webserver do; the id of its run."""

    def launch_job(job: str) -> str:
        command = [sys.executable, "-m", "dagster", "job", "launch", "-w", str(folder / "workspace.yaml"), "-j", job]
        done = subprocess.run(command, env=environment(folder), capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr + (folder / "log").read_text()
        return instance.get_runs(limit=1)[0].run_id

    return launch_job


def status(instance: dg.DagsterInstance, run: str) -> str:
    found = instance.get_run_by_id(run)
    assert found is not None
    return found.status.value


def test_runs_are_forks_of_a_process_that_has_the_imports(launch: Launch, instance: dg.DagsterInstance, folder: Path) -> None:
    """It was: the parent is the server itself, and nothing is there."""
    runs = [launch("telling"), launch("telling")]
    until(lambda: all(status(instance, run) == "SUCCESS" for run in runs))
    first, second = (json.loads((folder / f"{run}.json").read_text()) for run in runs)
    assert first["there"] == ["pyspark.sql.connect.session", "deltalake", "pyarrow.dataset", "confluent_kafka", "psycopg"]
    assert first["threads"] <= 3
    assert (first["parent"], first["there"]) == (second["parent"], second["there"])
    assert first["pid"] != second["pid"]
    # The definitions' own environment reaches the run: it is how a run knows which registry its server has loaded.
    assert first["server"] == second["server"] != first["parent"]


def test_a_run_is_ended_and_one_that_dies_is_told(launch: Launch, instance: dg.DagsterInstance) -> None:
    hanging, dying = launch("hanging"), launch("dying")
    until(lambda: status(instance, hanging) == "STARTED")
    assert instance.run_launcher.terminate(hanging)
    until(lambda: status(instance, hanging) == "CANCELED")
    until(lambda: status(instance, dying) == "FAILURE")
    told = [record.event_log_entry.message for record in instance.get_records_for_run(dying).records]
    assert any("unexpectedly exited" in (message or "") for message in told), told


def test_what_cannot_be_imported_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_preload, "_MODULES", ("no_such_module", "json"))
    run_preload.preload()
    assert "cdc: no_such_module cannot be loaded before a run" in capsys.readouterr().err
