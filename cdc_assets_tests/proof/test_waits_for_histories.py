"""Histories (SCD2) and new epochs in `cdc wait`, in the tables of `cdc status` and `cdc get`, and in what the sensor asks for."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.offsets_sensor import read_news
from cdc_assets.proof.chain_status import chain_status
from cdc_assets.registry.loader import load_sources
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

YAML = """\
source: feeds
kind: topics
cluster: lake
tables:
  - {name: prices, topic: prices, envelope: json, keys: [id], history: scd2, columns: {id: bigint not null}}
  - {name: plain, topic: plain, envelope: json, keys: [id], columns: {id: bigint not null}}
"""
RECORD = (b"k", b"{}")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three records of each table in the topics, in bronze and in silver; the history has one."""
    declare(tmp_path, monkeypatch, YAML, "feeds")
    kafka = FakeKafka({t: FakeTopic(f"id-{t}", {0: [RECORD] * 3}) for t in ("prices", "plain")})
    monkeypatch.setattr(Platform, "lake_kafka", lambda self: kafka)
    root = tmp_path / "lake"
    for version, table in enumerate(("prices", "plain")):
        append_bronze(root / "bronze/feeds", table, table, f"id-{table}", 0, 3, version=version)
        write_silver(root / f"silver/feeds/{table}", table, table, f"id-{table}", 3)
    write_silver(root / "silver/feeds/prices__history", "prices", "prices", "id-prices", 1)
    return root


def test_wait_waits_for_the_history_and_names_its_version(lake: Path) -> None:
    behind = CliRunner().invoke(app, ["wait", "feeds", "--timeout", "0.1"])
    assert behind.exit_code == 1
    assert "history/feeds/prices" in behind.stderr
    assert "plain" not in behind.stderr

    history = lake / "silver/feeds/prices__history"
    write_silver(history, "prices", "prices", "id-prices", 3)
    done = CliRunner().invoke(app, ["wait", "feeds", "--timeout", "5", "-o", "json"])
    assert done.exit_code == 0, done.output
    tables = json.loads(done.stdout)["sources"]["feeds"]["tables"]
    assert tables["prices"]["history"] == {"path": str(history), "version": DeltaTable(str(history)).version(), "rows": 4}
    assert "history" not in tables["plain"]


def test_the_lag_of_a_history_is_told(lake: Path) -> None:
    told = {chain.table: chain.to_json() for chain in chain_status(Platform())}
    assert (told["prices"]["silver_lag"], told["prices"]["history_lag"], told["prices"]["history_versions"]) == (0, 2, 1)
    assert (told["plain"]["history_lag"], told["plain"]["history_versions"]) == (None, None)
    rows = json.loads(CliRunner().invoke(app, ["get", "tables", "-o", "json"]).stdout)
    assert [(row["table"], row["history_lag"]) for row in rows] == [("prices", 2), ("plain", None)]


def test_a_history_that_is_behind_is_asked_for_without_new_records(lake: Path) -> None:
    """Declared after the last record had come, or left behind by a run that failed: nothing else would ever make it."""
    (source,) = load_sources(lake.parent / "sources")
    with dg.DagsterInstance.ephemeral() as instance:
        news, problems = read_news(instance, Platform(), source)
    assert problems == []
    assert {n.table: (n.waiting, n.silver_behind) for n in news} == {"prices": (0, True), "plain": (0, False)}


def test_a_table_read_again_is_behind_until_silver_has_the_epoch(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cdc repair bronze --anew`: the new epoch has fewer records than silver had folded of the old one."""
    kafka = FakeKafka({"prices": FakeTopic("id-prices", {0: [RECORD] * 3}), "plain": FakeTopic("id-plain", {0: [RECORD] * 5})})
    monkeypatch.setattr(Platform, "lake_kafka", lambda self: kafka)
    append_bronze(lake / "bronze/feeds", "plain", "plain", "id-plain", 3, 5, version=2, epoch=1)
    behind = CliRunner().invoke(app, ["wait", "feeds", "--timeout", "0.1"])
    assert behind.exit_code == 1, behind.output
    assert "silver/feeds/plain" in behind.stderr
    told = {chain.table: chain for chain in chain_status(Platform())}["plain"]
    assert (told.bronze_records, told.silver_lag) == (2, 2)
    (source,) = load_sources(lake.parent / "sources")
    with dg.DagsterInstance.ephemeral() as instance:
        news, problems = read_news(instance, Platform(), source)
    assert problems == []
    assert {n.table: n.silver_behind for n in news}["plain"]
