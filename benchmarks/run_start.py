"""What a Dagster run costs before its step does anything: seconds from its launch, and its processor time.

    python -m benchmarks.run_start [--runs 10]

Two code servers take turns: Dagster's own, and the stack's, whose runs are forks (`cdc_assets.stack.warm_runs`). The step
imports what the chain's steps import, and ends. Sources are the examples'.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import dagster as dg

from benchmarks.paired import Took, ratios

ROOT = Path(__file__).resolve().parents[1]
SERVERS = {"warm": "cdc_assets.stack.warm_runs", "dagster": "dagster"}
DEFINITIONS = """
import importlib, json, resource, time
from pathlib import Path
import dagster as dg
from cdc_assets import definitions

@dg.op
def begin(context):
    for name in ("pyspark.sql.connect.session", "pyspark.sql.connect.functions", "delta.tables", "deltalake",
                 "pyarrow.dataset", "confluent_kafka.admin", "psycopg", "pandas"):
        importlib.import_module(name)
    used = resource.getrusage(resource.RUSAGE_SELF)
    facts = {"at": time.time(), "cpu": used.ru_utime + used.ru_stime}
    (Path(__file__).parent / "began.json").write_text(json.dumps(facts))

@dg.job(executor_def=dg.in_process_executor)
def beginning():
    begin()

defs = dg.Definitions.merge(definitions.defs, dg.Definitions(jobs=[beginning]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with ExitStack() as stack:
        homes = {name: stack.enter_context(serve(module)) for name, module in SERVERS.items()}
        for home in homes.values():
            take(home)
        found: dict[str, list[Took]] = {name: [] for name in SERVERS}
        for number in range(runs):
            for name in [*SERVERS] if number % 2 == 0 else [*SERVERS][::-1]:
                found[name].append(take(homes[name]))
    for name, took in found.items():
        wall, cpu = (sorted(each) for each in zip(*took, strict=True))
        seconds = f"{median(wall):5.2f} s ({wall[0]:.2f} to {wall[-1]:.2f})"
        print(f"{name:8} {seconds}, processor {median(cpu):5.2f} s ({cpu[0]:.2f} to {cpu[-1]:.2f})")
    print(f"warm to dagster: {ratios(found['warm'], found['dagster'])}")


@contextmanager
def serve(module: str) -> Iterator[Path]:
    """A code server with an instance of its own; the instance's folder."""
    with tempfile.TemporaryDirectory(prefix="cdc-runs-") as made:
        home = Path(made)
        coordinator = {"module": "dagster.core.run_coordinator", "class": "DefaultRunCoordinator"}
        (home / "dagster.yaml").write_text(json.dumps({"telemetry": {"enabled": False}, "run_coordinator": coordinator}))
        (home / "made.py").write_text(DEFINITIONS)
        (home / "workspace.yaml").write_text(json.dumps({"load_from": [{"grpc_server": {"socket": str(home / "s")}}]}))
        command = [
            sys.executable,
            "-m",
            module,
            "api",
            "grpc",
            "--python-file",
            str(home / "made.py"),
            "--socket",
            str(home / "s"),
        ]
        with (home / "log").open("w") as log:
            server = subprocess.Popen(command, env=environment(home), stdout=log, stderr=log)
            try:
                while server.poll() is None and not (home / "s").exists():
                    time.sleep(0.1)
                yield home
            finally:
                server.terminate()
                server.wait(60)


def environment(home: Path) -> dict[str, str]:
    own = {"DAGSTER_HOME": str(home), "CDC_SOURCES": str(ROOT / "cdc_assets" / "sources"), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **own, "CDC_HOME": str(home / "cdc")}


def take(home: Path) -> Took:
    """One run: seconds from when it was made to its step's end, and its processor time until then."""
    began = home / "began.json"
    began.unlink(missing_ok=True)
    check = [sys.executable, "-m", "dagster", "api", "grpc-health-check", "--socket", str(home / "s")]
    deadline = time.monotonic() + 120
    while subprocess.run(check, env=environment(home), capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, (home / "log").read_text()
    launch = [sys.executable, "-m", "dagster", "job", "launch", "-w", str(home / "workspace.yaml"), "-j", "beginning"]
    subprocess.run(launch, env=environment(home), stdout=subprocess.DEVNULL, check=True, timeout=300)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (record,) = instance.get_run_records(limit=1)
        while not instance.get_runs(dg.RunsFilter([record.dagster_run.run_id]))[0].is_finished:
            time.sleep(0.1)
    facts = json.loads(began.read_text())
    return Took(facts["at"] - record.create_timestamp.timestamp(), facts["cpu"])


if __name__ == "__main__":
    main()
