"""What Dagster has of a source that declares a drill, and when its check is red."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.defs.check_specs import DRILLED
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.defs.upkeep_assets import drill_check
from cdc_assets.recovery.drill import Drill, DrilledTable, note_drill
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.source_settings import DrillSettings
from cdc_assets_tests.recovery.conftest import SHOP
from cdc_assets_tests.support.declared import declare_source

DAY = 86_400.0


def definitions(source: Source) -> dg.Definitions:
    return dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))


@pytest.fixture
def drilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, SHOP.format(bucket=tmp_path / "bucket") + "drill: {every: 7d}\n")


def test_a_source_that_declares_it_has_an_asset_a_check_and_a_schedule(drilled: Source) -> None:
    repository, key = definitions(drilled).get_repository_def(), asset_key(names.DRILL, drilled)
    assert repository.assets_defs_by_key[key].asset_deps[key] == {asset_key("backup", drilled, t) for t in drilled.tables}
    assert DRILLED.key(drilled) in repository.asset_graph.asset_check_keys
    assert repository.has_job("drill_shop")
    # By the rounds of checks as well: a drill that does not come any more is told.
    assert DRILLED.key(drilled) in repository.get_job("volumetry_shop").asset_layer.asset_graph.asset_check_keys
    assert repository.get_schedule_def("drill_shop_schedule").cron_schedule == "0 0 */7 * *"


def test_a_source_that_does_not_has_none(shop: Source) -> None:
    repository = definitions(shop).get_repository_def()
    assert asset_key(names.DRILL, shop) not in repository.assets_defs_by_key
    assert not repository.has_job("drill_shop")


def told(source: Source, lake: Path) -> tuple[bool, str]:
    chosen = dg.AssetSelection.checks(DRILLED.key(source))
    resources = {"platform": Platform(lake_root=str(lake))}
    result = dg.materialize(drill_check.build(source), selection=chosen, resources=resources, raise_on_error=False)
    (found,) = result.get_asset_check_evaluations()
    return found.passed, found.description or ""


@pytest.mark.slow
def test_the_check_is_red_without_a_drill_after_one_that_differs_and_when_it_is_old(drilled: Source, tmp_path: Path) -> None:
    def note(days: float, **facts: object) -> Drill:
        drill = Drill("shop", time.time() - days * DAY, 90.0, 1234, (DrilledTable("orders", 3, 10, **facts),))  # type: ignore[arg-type]
        note_drill(str(tmp_path), drilled, drill)
        return drill

    assert told(drilled, tmp_path) == (False, "there was no drill yet: cdc drill shop")
    drill = note(8.7)
    assert told(drilled, tmp_path) == (True, f"10 rows equal at {drill.moment}")
    drill = note(8.8)
    assert told(drilled, tmp_path) == (False, f"the last drill was at {drill.moment}: cdc drill shop")
    note(0, differing=2)
    assert told(drilled, tmp_path) == (False, "orders: 2 rows of 10 differ")
    note(0, problem="shop/orders/x is missing")
    assert told(drilled, tmp_path) == (False, "orders: shop/orders/x is missing")


def test_how_late_a_drill_may_be(drilled: Source, tmp_path: Path) -> None:
    assert drilled.drill == DrillSettings(every=timedelta(days=7))
    assert drilled.drill.oldest == timedelta(days=8, hours=18)
    assert DrillSettings(every=timedelta(hours=1)).oldest == timedelta(hours=2)
    strict = DrillSettings(every=timedelta(days=7), tolerance=timedelta(hours=2))
    source = drilled.model_copy(update={"drill": strict})
    for hours, passed in ((169, True), (171, False)):
        note_drill(str(tmp_path), source, Drill("shop", time.time() - hours * 3600, 90.0, 1, (DrilledTable("orders", 3, 10),)))
        assert told(source, tmp_path)[0] is passed
