"""What `cdc status` and `cdc wait` learn from a real webserver: red checks, and why tables are behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs.status import ask_checks, judge_chain
from cdc_assets.clients.platform import Platform
from cdc_assets.proof.chain_verdicts import AT_KEY, POSITION_KEY
from cdc_assets.registry.errors import FailuresError
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic
from cdc_assets_tests.support.lake.jvm import free_port

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]
TABLE = "  - {name: %s, topic: %s, envelope: json, keys: [id], columns: {id: bigint not null}}\n"
PRICES, PLAIN, LATER = (TABLE % (name, name) for name in ("prices", "plain", "later"))
HEAD = "source: feeds\nkind: topics\ncluster: lake\nreconciliation: {every: 6h}\ntables:\n"


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """Of a webserver that has loaded a source of two tables; no daemon runs."""
    file = tmp_path / "sources" / "feeds.yaml"
    file.parent.mkdir()
    file.write_text(HEAD + PRICES + PLAIN)
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    for name, value in {"CDC_SOURCES": "sources", "CDC_LAKE": "lake", "CDC_HOME": "home", "DAGSTER_HOME": "dagster"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    port = free_port()
    monkeypatch.setenv("CDC_DAGSTER_URL", f"http://127.0.0.1:{port}")
    command = [sys.executable, "-m", "dagster_webserver", "-m", "cdc_assets.definitions", "-h", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "log").open("w") as log, dg.DagsterInstance.get() as instance:
        server = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, stdout=log, stderr=log)
        try:
            await_webserver(server, f"http://127.0.0.1:{port}/server_info", tmp_path / "log")
            yield instance
        finally:
            server.terminate()
            server.wait(60)


def await_webserver(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + 300
    while True:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        try:
            httpx.get(url, timeout=5, trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.5)
        else:
            return


def report(instance: dg.DagsterInstance, layer: str, check: str, *, passed: bool, told: str, **more: Any) -> None:
    table = more.pop("table", "prices")
    evaluation = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey([layer, "feeds", f"{layer}_{table}"]),
        check_name=check,
        passed=passed,
        description=told,
        metadata=more,
    )
    instance.report_runless_asset_event(evaluation)


def status_of_tables() -> tuple[dict[str, str], list[str]]:
    """As `cdc status` shows them, and what has failed."""
    answer: dict[str, Any] = {"tables": [{"source": "feeds", "table": table} for table in ("prices", "plain")]}
    failed = [each.place for each in judge_chain(answer, ask_checks()) if each.state == "failed"]
    return {row["table"]: row["checks"] for row in answer["tables"]}, failed


def rows_compared(table: str) -> Any:
    """As `cdc status -o json` has it."""
    answer: dict[str, Any] = {"tables": [{"source": "feeds", "table": table}]}
    judge_chain(answer, ask_checks())
    return answer["tables"][0]["rows_compared"]


def fail_before_a_check_and_in_one(instance: dg.DagsterInstance) -> None:
    """A run that fails in the fold of plain, so that its check never begins, and in the check of prices itself."""

    def fold(name: str, *, fails: bool) -> dg.AssetsDefinition:
        @dg.asset(key=["silver", "feeds", f"silver_{name}"])
        def folded() -> None:
            if fails:
                raise RuntimeError("no space left on device")

        return folded

    def check(name: str) -> dg.AssetChecksDefinition:
        @dg.asset_check(asset=["silver", "feeds", f"silver_{name}"], name="quarantine_empty")
        def quarantine_empty() -> dg.AssetCheckResult:
            raise RuntimeError("the source is away")

        return quarantine_empty

    assets = [fold("plain", fails=True), fold("prices", fails=False)]
    defs = dg.Definitions(assets=assets, asset_checks=[check("plain"), check("prices")], jobs=[dg.define_asset_job("carry")])
    defs.resolve_job_def("carry").execute_in_process(instance=instance, raise_on_error=False)


def test_a_check_that_never_began_has_not_failed(instance: dg.DagsterInstance) -> None:
    fail_before_a_check_and_in_one(instance)
    shown, failed = status_of_tables()
    assert shown["plain"] == "not run"
    assert shown["prices"].startswith("1 failed, ")
    assert failed == ["silver/feeds/silver_prices quarantine_empty"]

    # What was found before stays said.
    report(instance, "silver", "quarantine_empty", passed=False, told="1 record in quarantine", table="plain")
    fail_before_a_check_and_in_one(instance)
    shown, failed = status_of_tables()
    assert shown["plain"].startswith("1 failed, ")
    assert sorted(failed) == ["silver/feeds/silver_plain quarantine_empty", "silver/feeds/silver_prices quarantine_empty"]


def fail_a_run(instance: dg.DagsterInstance) -> str:
    @dg.op
    def folding() -> None:
        raise FailuresError.of_tables("bronze", {"prices": "no space left on device"})

    @dg.job(tags={"cdc/source": "feeds", "cdc/tables": "plain,prices"})
    def carry() -> None:
        folding()

    return carry.execute_in_process(instance=instance, raise_on_error=False).run_id


def test_status_and_wait_say_what_dagster_knows(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_of_tables() == ({"prices": "not run", "plain": "not run"}, [])

    report(instance, "silver", "quarantine_empty", passed=False, told="1 record(s) in quarantine")
    report(instance, "bronze", "record_parity", passed=True, told="3 records")
    # Silver has been folded since: its newest state has no evaluation, and is not green for that.
    instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["silver", "feeds", "silver_prices"])))
    shown, failed = status_of_tables()
    assert shown["prices"].startswith("1 failed, ")
    assert shown["plain"] == "not run"
    assert failed == ["silver/feeds/silver_prices quarantine_empty"]

    # When rows were compared is part of what passes, also where the last comparison could not be made.
    report(instance, "silver", "quarantine_empty", passed=True, told="none", table="plain")
    assert status_of_tables()[0]["plain"].endswith("not run, rows never compared")
    assert rows_compared("plain") is None
    compared = {"cdc/share": "1/1", "cdc/source_lsn": "plain 0:3", "cdc/silver_rows": 3}
    report(instance, "silver", "reconciled", passed=True, told="equal", table="plain", **compared)
    assert status_of_tables()[0]["plain"].endswith(" s ago")
    assert (rows_compared("plain")["position"], rows_compared("plain")["part"]) == ("plain 0:3", "1/1")
    at, uncompared = time.time() - 3 * 3600, {"cdc/share": "1/1", "cdc/error": "no way", POSITION_KEY: "plain 0:2"}
    told_at = {AT_KEY: dg.MetadataValue.timestamp(at)}
    report(instance, "silver", "reconciled", passed=True, told="not compared", table="plain", **uncompared, **told_at)
    assert status_of_tables()[0]["plain"].endswith(", rows compared 3 h ago")
    assert rows_compared("plain")["position"] == "plain 0:2"
    assert abs(rows_compared("plain")["at"] - at) < 1

    # `cdc wait`: the run failed, the daemon is not there, a table is not loaded, and a check is red.
    run = fail_a_run(instance)
    (tmp_path / "sources" / "feeds.yaml").write_text(HEAD + PRICES + PLAIN + LATER)
    entry = (b"k", b"{}")
    kafka = FakeKafka({t: FakeTopic(f"id-{t}", {0: [entry] * 3}) for t in ("prices", "plain", "later")})
    monkeypatch.setattr(Platform, "lake_kafka", lambda self: kafka)
    append_bronze(tmp_path / "lake/bronze/feeds", "plain", "plain", "id-plain", 0, 3, version=0)
    write_silver(tmp_path / "lake/silver/feeds/plain", "plain", "plain", "id-plain", 3)
    told = CliRunner().invoke(app, ["wait", "feeds", "--timeout", "0.1"])
    assert told.exit_code == 1
    assert "not caught up within 0 s: bronze/feeds/prices, bronze/feeds/later" in told.stderr
    # Of the run only the table that is behind: plain was carried since.
    page = f"{os.environ['CDC_DAGSTER_URL']}/runs/{run}"
    failed_run = "1 table failed, all others are done: prices: no space left on device"
    assert (
        f"the last run of prices failed: folding: cdc_assets.registry.errors.FailuresError: bronze: {failed_run}; {page}"
        in told.stderr
    )
    assert "dagster-daemon has no heartbeat" in told.stderr
    assert "SENSOR" in told.stderr
    assert "Dagster has no asset bronze/feeds/bronze_later loaded" in told.stderr
    assert "has no asset bronze/feeds/bronze_prices" not in told.stderr
    assert "silver/feeds/silver_prices quarantine_empty is red: 1 record(s) in quarantine" in told.stderr
