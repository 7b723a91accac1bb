"""Declared windows as Dagster is told of them: assets behind silver, their checks and jobs; nothing where none are declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.chain.windowed_results import is_behind, windows_of
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.source_declaration import Source

HOURLY: dict[str, Any] = {
    **{"name": "per_hour", "event_time": "created_at", "size": "1h", "by": ["city"], "trigger": "5m"},
    "measures": {"orders": "count"},
}
ARRIVALS: dict[str, Any] = {"name": "arrivals", "event_time": "_cdc_source_ts", "size": "1m", "measures": {"rows": "count"}}


@pytest.fixture
def windowed(source: Source) -> Source:
    declared = source.model_dump(mode="json", exclude_unset=True)
    declared["tables"] = [{"name": "public.orders", "windows": [HOURLY, ARRIVALS]}, {"name": "public.lines"}]
    return Source.model_validate(declared)


def definitions(source: Source) -> dg.Definitions:
    return dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))


def test_each_declaration_is_an_asset_behind_its_silver_table(windowed: Source) -> None:
    graph = definitions(windowed).get_repository_def().asset_graph
    keys = sorted(key.to_user_string() for key in graph.get_all_asset_keys() if key.path[0] == "windows")
    assert keys == [f"windows/shop/windows_orders__{name}" for name in ("arrivals", "per_hour")]
    hourly, arrivals = (graph.get(dg.AssetKey(keys[at].split("/"))) for at in (1, 0))
    assert [key.to_user_string() for key in hourly.parent_keys] == ["silver/shop/silver_orders"]
    assert sorted(check.name for check in hourly.check_keys) == ["windows_equal_batch", "windows_equal_source"]
    assert [check.name for check in arrivals.check_keys] == ["windows_equal_batch"]
    assert (hourly.group_name, sorted(hourly.kinds), [*hourly.owners]) == ("shop", ["delta", "spark", "windows"], ["team:data"])
    assert hourly.description == "1 figure of table public.orders by 1h of event time and city, refined by late rows."
    assert hourly.metadata["cdc/panes_uri"].endswith("/windows/shop/orders__per_hour__panes")


def test_the_job_of_each_trigger_leaves_the_sources_sql_to_a_job_of_its_own(windowed: Source) -> None:
    loaded = definitions(windowed)
    checks = {
        name: {key.name for key in loaded.resolve_job_def(name).asset_layer.asset_graph.asset_check_keys}
        for name in ("windows_shop", "sums_shop")
    }
    assert checks == {"windows_shop": {"windows_equal_batch"}, "sums_shop": {"windows_equal_source"}}
    schedules = {schedule.name: schedule.cron_schedule for schedule in loaded.schedules or ()}
    assert (schedules["windows_shop_schedule"], schedules["sums_shop_schedule"]) == ("*/1 * * * *", "0 */1 * * *")


def test_a_source_without_windows_has_none(source: Source) -> None:
    loaded = definitions(source)
    assert not [job.name for job in loaded.jobs or () if job.name.startswith(("windows", "sums"))]
    assert not [key for key in loaded.resolve_all_asset_keys() if key.path[0] == "windows"]


def test_a_lake_without_silver_may_be_behind(windowed: Source, tmp_path: Path) -> None:
    assert all(is_behind(str(tmp_path), windows) for windows in windows_of(windowed))
