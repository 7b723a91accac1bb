"""Who still reads old versions of a source's tables is named, and `cdc maintain` does what its dry run says."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from benchmarks.bench.year import age
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.delta_log import bronze_committed, silver_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.upkeep_assets import build_maintenance_asset, maintenance_check
from cdc_assets.recovery.maintenance import EXPIRED_COMMITS, maintain_source, what_is_behind
from cdc_assets.registry.errors import FailuresError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.shop_logs import SOURCE, Shop
from cdc_assets_tests.support.declared import declare_source
from spark.errors import JobRefusedError
from spark.upkeep.maintenance_spec import MaintenanceSpec
from spark.upkeep.table_maintenance import plan_table


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, SOURCE)


@pytest.fixture
def shop(tmp_path: Path, source: Source) -> Shop:
    return Shop(tmp_path, source)


def test_who_still_reads_is_named(shop: Shop) -> None:
    shop.append("orders", 3)
    shop.append("lines", 2)
    for table in shop.ends:
        shop.fold(table)
    assert shop.needs() == {"bronze/shop": [], "silver/shop/orders": [], "silver/shop/lines": []}
    for _ in range(3):
        shop.append("lines")
    # An idle table holds nothing back, one with news does.
    assert shop.needs()["bronze/shop"] == [(1, "silver/shop/lines has not folded what comes after it")]
    shop.fold("lines")
    shop.count()
    assert shop.needs()["bronze/shop"] == []
    shop.append("orders")
    shop.fold("orders")
    reason = "the ledger has not counted what comes after it: cdc ledger --count"
    assert shop.needs() == {
        "bronze/shop": [(1, reason)],
        "silver/shop/orders": [(0, reason)],
        "silver/shop/lines": [],
        "ledger/shop": [],
    }


def run(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(app, ["maintain", *arguments, "-o", "json"])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.slow
def test_the_command_does_what_its_dry_run_says(shop: Shop) -> None:
    for table in shop.ends:
        for _ in range(12):
            shop.append(table)
    for table in shop.ends:
        shop.fold(table)
    bronze = str(shop.bronze)
    before = bronze_committed(bronze)
    assert before is not None
    commits = 3_000
    age(bronze, commits, bronze_version=None, checkpoint_each=100)
    code, planned = run("--dry-run", "bronze/shop")
    assert [row["table"] for row in planned] == ["bronze/shop"]
    assert code == 1
    assert "commits that nobody needs" in planned[0]["behind"]
    assert planned[0]["expire"] > EXPIRED_COMMITS
    code, done = run("shop")
    assert code == 0
    assert {row["table"] for row in done} == {"bronze/shop", "silver/shop/orders", "silver/shop/lines"}
    [of_bronze] = [row for row in done if row["table"] == "bronze/shop"]
    assert of_bronze["expired"] == planned[0]["expire"]
    assert of_bronze["rewritten"] == planned[0]["rewrite"] == 24
    # An hour of commits, ten seconds each, and up to a checkpoint before that.
    assert 360 <= of_bronze["commits"] <= 480
    told = CliRunner().invoke(app, ["maintain", "bronze/shop"]).stderr
    assert re.fullmatch(r"bronze/shop: nothing to do \(\d+\.\d s\)\n", told), told
    code, planned = run("--dry-run")
    assert (code, [row["behind"] for row in planned]) == (0, ["", "", ""])
    after = bronze_committed(bronze)
    assert after is not None
    assert after.topics == before.topics
    # A year later silver still says what it has folded, and the next append builds on it all.
    shop.append("orders")
    found = bronze_committed(bronze)
    assert found is not None
    assert found.topics[shop.topic("orders")].records == 13
    assert silver_committed(str(shop.silver("orders"))) is not None


@pytest.mark.slow
def test_a_table_that_cannot_be_read_stops_no_other(shop: Shop) -> None:
    for number in range(40):
        shop.append("orders" if number % 2 else "lines")
    shop.fold("orders")
    next(shop.bronze.glob("*.parquet")).unlink()
    found = maintain_source(Chain(Platform(), shop.source))
    assert [table.name for table, _ in islice(found, 1)] == ["silver/shop/orders"]
    with pytest.raises(FailuresError, match=r"1 table failed, all others are done:\n  bronze/shop: FileNotFoundError"):
        next(found)


def test_a_table_elsewhere_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobRefusedError, match="abfss://lake/bronze/shop"):
        plan_table(MaintenanceSpec("abfss://lake/bronze/shop"))
    found = plan_table(MaintenanceSpec(str(tmp_path)))
    assert what_is_behind(found) == ["the table's log does not begin here"]


def test_a_table_of_another_name_is_refused(shop: Shop) -> None:
    shop.append("orders")
    done = CliRunner().invoke(app, ["maintain", "--dry-run", "silver/shop/nothing"])
    assert done.exit_code == 2
    assert "nothing" in done.output


@pytest.mark.slow
def test_the_asset_and_its_check_say_what_there_is(shop: Shop) -> None:
    for number in range(30):
        shop.append("orders" if number % 2 else "lines")
    for table in shop.ends:
        shop.fold(table)
    parts: list[Any] = [build_maintenance_asset(shop.source), *maintenance_check.build(shop.source)]
    done = dg.materialize(parts, resources={"platform": PlatformResource()})
    [event] = done.asset_materializations_for_node("cdc_maintenance_shop")
    told = {name: value.value for name, value in event.metadata.items()}
    table = event.metadata["cdc/tables"]
    assert isinstance(table, dg.TableMetadataValue)
    assert (told["cdc/files_rewritten"], told["cdc/files_written"], told["cdc/files"]) == (30, 1, 3)
    [of_bronze] = [record.data for record in table.records if record.data["table"] == "bronze/shop"]
    assert (of_bronze["files"], of_bronze["rows"], of_bronze["files_rewritten"]) == (1, 30, 30)
    assert of_bronze["kept_from"] == "0: time travel: 1 h"
    plan = event.metadata["cdc/plan"]
    assert isinstance(plan, dg.TableMetadataValue)
    [planned] = [record.data for record in plan.records if record.data["table"] == "bronze/shop"]
    assert (planned["rewrite_files"], planned["checkpoint"], planned["left"]) == (30, True, "")
    [check] = done.get_asset_check_evaluations()
    assert (check.passed, check.description) == (True, "3 tables as they should be")
    assert {name: check.metadata[f"cdc/{name}"].value for name in ("small_files", "dead_rows")} == {
        "small_files": 3,
        "dead_rows": 0,
    }
    age(str(shop.bronze), 3_000, bronze_version=None, checkpoint_each=100)
    only = dg.AssetSelection.checks(*parts[1].check_keys)
    again = dg.materialize(parts, resources={"platform": PlatformResource()}, selection=only, raise_on_error=False)
    [check] = again.get_asset_check_evaluations()
    assert not check.passed
    assert re.fullmatch(r"bronze/shop: 2\d\d\d commits that nobody needs", check.description or ""), check.description
