"""Alert rules and dashboard of the registry: Prometheus takes the rules, and each names metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.deploy import metric_names as names
from cdc_assets.deploy.monitoring_files import grafana_files, prometheus_files
from cdc_assets.deploy.prometheus_metrics import FigureCache, MetricSample, serve
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.settings import example_sources
from cdc_assets_tests.programs.wanted import Program
from cdc_assets_tests.support.servers.prometheus_server import bring_prometheus, check_config, prometheus_server


def rules() -> list[dict[str, Any]]:
    read = YAML(typ="safe").load(prometheus_files(load_sources(example_sources()))["prometheus/alerts.yaml"])
    return [rule for group in read["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(grafana_files(load_sources(example_sources()))["grafana/cdc_assets.json"])
    return found


def test_every_source_has_its_alerts() -> None:
    behind = [rule["expr"] for rule in rules() if rule["alert"] == "CdcSilverBehind"]
    sources = [source.name for source in load_sources(example_sources())]
    assert [re.findall(r'source="(\w+)"', each) for each in behind] == [[name] for name in sources]
    assert all("[30m]" in each for each in behind)
    assert all(rule["annotations"]["mend"] and rule["annotations"]["runbook"] for rule in rules())


def test_rules_and_panels_name_metrics_that_there_are() -> None:
    expressions = [rule["expr"] for rule in rules()]
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    used = {name for each in expressions for name in re.findall(r"\bcdc_[a-z_]+\b", each)} - {"cdc_assets"}
    assert used <= set(names.HELP)
    assert set(names.HELP) - used <= {names.BRONZE, names.WORKED_AT, names.COLLECT_SECONDS}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """By what its import needs: unique ids, places that do not overlap, a data source that is chosen at the import."""
    found = dashboard()
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert [panel["title"] for panel in panels if panel["type"] == "row"] == ["All sources", "Source bank", "Source world"]
    used = {target["datasource"]["uid"] for panel in panels for target in panel.get("targets", ())}
    assert used == {"${" + found["templating"]["list"][0]["name"] + "}"}


def test_the_command_writes_them(tmp_path: Path) -> None:
    for target, count in (("prometheus", 2), ("grafana", 1)):
        words = ["render", "--target", target, "--out", str(tmp_path)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert f"{count} file" in done.stderr
        assert CliRunner().invoke(app, [*words, "--check"]).exit_code == 0


@pytest.fixture(scope="module")
def prometheus() -> Program:
    return bring_prometheus()


@pytest.mark.all
@pytest.mark.service
def test_prometheus_takes_the_rules_and_alerts(prometheus: Program, tmp_path: Path) -> None:
    files = prometheus_files(load_sources(example_sources()))
    figures = [
        MetricSample(names.CHECK, ("silver", "bank", "accounts", "reconciled"), 2),
        MetricSample(names.CHECK, ("silver", "bank", "owners", "reconciled"), 0),
        MetricSample(names.LAG, ("bank", "accounts", "silver"), 12),
    ]
    server, thread = serve(FigureCache(lambda: figures, seconds=60), 0)
    text = files["prometheus/prometheus.yaml"].replace("127.0.0.1:9309", f"127.0.0.1:{server.server_port}")
    (tmp_path / "prometheus.yaml").write_text("global: {evaluation_interval: 1s}\n" + text.replace("30s", "1s"))
    (tmp_path / "alerts.yaml").write_text(files["prometheus/alerts.yaml"])
    assert f"{len(rules())} rules found" in check_config(prometheus, tmp_path)
    try:
        with prometheus_server(prometheus, tmp_path) as running:
            # On a machine under load a scrape may last longer than its second, and is repeated.
            alerts = running.await_alerts("CdcCheckFailed", gone="CdcMetricsAway")
            assert [(each["check"], each["table"]) for each in alerts["CdcCheckFailed"]] == [("reconciled", "accounts")]
            assert [(labels["table"], value) for labels, value in running.values(names.LAG)] == [("accounts", 12)]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
