"""Grafana's own models of a dashboard know all that stands in ours, and would tell a wrong name and a wrong type."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest

from cdc_assets.deploy.monitoring_files import grafana_files
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.settings import example_sources

if sys.version_info < (3, 11):
    pytest.skip("Grafana's models want Python 3.11", allow_module_level=True)

from cdc_assets_tests.support.oracles.grafana_models import dashboard_faults


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(grafana_files(load_sources(example_sources()))["grafana/cdc_assets.json"])
    return found


def test_grafana_knows_all_of_the_dashboard(rendered: dict[str, Any]) -> None:
    assert dashboard_faults(rendered) == []
    assert {panel["type"] for panel in rendered["panels"]} == {"row", "stat", "table", "gauge", "timeseries", "bargauge"}


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("refreshEvery", "30s", "/refreshEvery: nothing of Grafana's has this name"),
        ("time/begin", "now-6h", "/time/begin: nothing"),
        ("panels/1/options/colourMode", "background", "/panels/1/options/colourMode: nothing"),
        ("panels/1/options/colorMode", "backdrop", "'backdrop' is none of"),
        ("panels/1/options/wideLayout", "yes", "/panels/1/options/wide_layout: 'yes' is none of"),
        ("panels/1/gridPos/w", "8", "/panels/1/grid_pos/w: '8' is none of"),
        ("panels/1/fieldConfig/defaults/thresholds/steps/1/value", "1", "/steps/1/value: '1' is none of"),
        ("panels/1/fieldConfig/defaults/treshold", {}, "/defaults/treshold: nothing"),
        ("panels/1/targets/0/legend", "{{table}}", "/targets/0/legend: nothing"),
        ("panels/1/targets/0/format", "series", "'series' is none of"),
        ("panels/1/type", "statt", "no panel of type 'statt'"),
        ("panels/1/datasource/type", "prometeus", "no such query"),
        ("panels/2/fieldConfig/defaults/custom", {"cellOption": {}}, "/custom/cellOption: nothing"),
        ("panels/2/fieldConfig/overrides/0/properties/1/id", "custom.cellOption", "/custom/cellOption: nothing"),
        ("panels/2/fieldConfig/overrides/0/properties/1/value", {"type": "coloured"}, "do not read it: KeyError('coloured')"),
        ("panels/5/fieldConfig/defaults/unit", "percents", "no unit 'percents'"),
        ("templating/list/0/kind", "datasource", "/templating/list/0/kind: nothing"),
    ],
)
def test_a_fault_is_told(rendered: dict[str, Any], place: str, value: Any, told: str) -> None:
    planted: Any = copy.deepcopy(rendered)
    *way, last = place.split("/")
    inner = planted
    for step in way:
        inner = inner[int(step)] if step.isdigit() else inner[step]
    inner[last] = value
    assert any(told in fault for fault in dashboard_faults(planted)), dashboard_faults(planted)
