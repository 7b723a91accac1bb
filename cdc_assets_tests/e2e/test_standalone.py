"""The examples on a Spark cluster of the stack's own, by Spark Connect and by spark-submit, with both executors killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from cdc_assets_tests.e2e.own_lakehouse import own_lakehouse
from cdc_assets_tests.e2e.source_rows import current_versions, silver_rows, source_rows
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse
from cdc_assets_tests.support.own_stack import until

pytestmark = [pytest.mark.e2e, pytest.mark.all]
PARTS = ["spark-master", "spark-worker-1", "spark-worker-2", "spark-connect"]
TABLES = [("world", "country"), ("world", "city"), ("bank", "pgbench_accounts"), ("bank", "pgbench_history")]


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with own_lakehouse(Lakehouse, tmp_path_factory.mktemp("sources"), "--spark", "standalone") as house:
        yield house


def components(house: Lakehouse) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(house.cdc("status", "--no-tables", "-o", "json", check=False).stdout)["components"]
    return found


def executors(house: Lakehouse) -> list[int]:
    return [row["pid"] for row in components(house) if row["name"].strip().startswith("executor")]


def compare_all(house: Lakehouse) -> None:
    waited = json.loads(house.cdc("wait", "--timeout", "900", "-o", "json", timeout=1000).stdout)["sources"]
    for source, table in TABLES:
        with house.connect(source) as connection:
            columns, expected = source_rows(connection, table)
        told = waited[source]["tables"][table]
        assert silver_rows(house.silver(source, table), columns, version=told["version"]) == expected, table
        if (source, table) == ("world", "country"):
            version = told["history"]["version"]
            assert current_versions(house.history(source, table), columns, version=version) == expected


def test_up_starts_the_cluster_and_every_check_passes(clustered: Lakehouse) -> None:
    assert "failed" not in clustered.up_output
    rows = {row["name"]: row["health"] for row in components(clustered)}
    assert {name: rows.get(name) for name in PARTS} == dict.fromkeys(PARTS, "healthy")
    until(lambda: len(executors(clustered)) == 2)


def test_both_executors_killed_under_traffic_cost_no_row(clustered: Lakehouse) -> None:
    command = [sys.executable, "-m", "cdc_assets.cli", "traffic", "--rate", "200", "--seconds", "60"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=clustered.environment(), **quiet) as traffic:  # type: ignore[call-overload]
        killed: set[int] = set()
        while traffic.poll() is None:
            for pid in set(executors(clustered)) - killed:
                psutil.Process(pid).kill()
                killed.add(pid)
            time.sleep(10)
        assert traffic.returncode == 0
    with clustered.connect("world") as world:
        world.execute("UPDATE country SET population = population + 1 WHERE iso < 'F'")
    assert len(killed) > 2
    compare_all(clustered)
    assert clustered.cdc("reconcile", timeout=1500).returncode == 0


def test_the_same_cluster_serves_spark_submit(clustered: Lakehouse, tmp_path: Path) -> None:
    master = clustered.addresses["CDC_SPARK_MASTER"]
    for table in ("world.country", "world.city"):
        # Its schedule has not counted yet: the job below would, and have rows to add.
        clustered.cdc("ledger", table, "--count")
    for job in ("silver", "history", "ledger"):
        spec = tmp_path / f"{job}.json"
        places = ("world",) if job == "ledger" else ("world", "country")
        spec.write_text(clustered.cdc("spec", job, *places).stdout)
        done = clustered.cdc("spark-submit", "--master", master, "spark/__main__.py", "--job", job, "--spec", str(spec))
        assert json.loads(done.stdout.splitlines()[-1])["rows_inserted"] == 0
    secret = clustered.private("spark_cluster_secret")
    assert [p.pid for p in psutil.process_iter(["cmdline"]) if secret in " ".join(p.info["cmdline"] or ())] == []


def test_up_again_keeps_the_cluster_and_down_leaves_nothing(clustered: Lakehouse) -> None:
    refused = clustered.cdc("up", "--spark", "local", "--no-main-job", check=False)
    assert refused.returncode != 0
    assert "runs with --spark standalone" in refused.stdout + refused.stderr
    pids = executors(clustered)
    clustered.cdc("down")
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
