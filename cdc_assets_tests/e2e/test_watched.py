"""A table that is damaged, on the stack that runs: a pager is told once, a real Prometheus sees it, and the command mends it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse, until
from cdc_assets_tests.support.posts import Posts
from cdc_assets_tests.support.servers.prometheus_server import (
    PrometheusServer,
    bring_prometheus,
    check_config,
    prometheus_server,
)

pytestmark = pytest.mark.e2e

ASSET, CHECK = "silver/world/silver_city", "reconciled"
PLACE = f"{ASSET} {CHECK}"
COUNTED = {"world": "city", "bank": "pgbench_tellers", "shop": "shop__orders", "plant": "plant__parts"}
"""A table of each source of the stack; what is counted by a schedule comes too rarely for a test."""


def told(pager: Posts) -> list[dict[str, Any]]:
    """What the pager was told of the check, in order."""
    return [alert for path, body in list(pager.bodies) if path == "/pager" for alert in body["alerts"] if alert["place"] == PLACE]


def traced_steps(pager: Posts, sensor: str) -> list[set[str]]:
    """Of each trace of a run that the sensor asked for, which steps it has."""
    found = []
    for spans in [body["resourceSpans"][0]["scopeSpans"][0]["spans"] for path, body in list(pager.bodies) if "otlp" in path]:
        roots = {span["traceId"] for span in spans if sensor in str(span["attributes"]) and "parentSpanId" not in span}
        found += [{span["name"] for span in spans if span["traceId"] == trace and "parentSpanId" in span} for trace in roots]
    return found


@contextmanager
def served_metrics(lakehouse: Lakehouse, folder: Path) -> Iterator[str]:
    """`cdc metrics` as a process of its own; the address that it prints."""
    command = [sys.executable, "-m", "cdc_assets.cli", "metrics", "--port", "0", "--every", "1"]
    with (folder / "metrics.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=lakehouse.environment(), stderr=log)
    try:
        yield until(lambda: re.findall(r"http://(\S+)/metrics", (folder / "metrics.log").read_text()), "no address")[0]
    finally:
        process.terminate()
        process.wait(30)


def remove_rows(lakehouse: Lakehouse) -> None:
    before = os.umask(0o077)
    try:
        DeltaTable(str(lakehouse.silver("world", "city"))).delete("geonameid % 1000 = 8")
    finally:
        os.umask(before)


def silent_panels(prometheus: PrometheusServer, dashboard: dict[str, Any]) -> list[str]:
    """Panels of the dashboard whose question this Prometheus refuses, or has nothing for."""
    asked = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return [f"{title}: {expression}" for title, expression in asked if not prometheus.values(expression)]


def links_behind(prometheus: PrometheusServer, table: str) -> dict[str, float]:
    return {labels["link"]: value for labels, value in prometheus.values("cdc_lag_records") if labels["table"] == table}


@pytest.mark.all
def test_a_red_check_is_told_seen_and_mended(lakehouse: Lakehouse, graphql: Graphql, pager: Posts, tmp_path: Path) -> None:
    program = bring_prometheus()
    for target in ("prometheus", "grafana"):
        lakehouse.cdc("render", "--target", target, "--out", str(tmp_path))
    dashboard = json.loads((tmp_path / "grafana" / "cdc_assets.json").read_text())
    folder = tmp_path / "prometheus"
    with served_metrics(lakehouse, tmp_path) as address:
        text = (folder / "prometheus.yaml").read_text().replace("127.0.0.1:9309", address).replace("30s", "1s")
        (folder / "prometheus.yaml").write_text(f"global: {{evaluation_interval: 1s}}\n{text}")
        check_config(program, folder)
        with prometheus_server(program, folder) as prometheus:

            def state() -> set[float]:
                wanted = {"source": "world", "table": "city", "check": CHECK, "layer": "silver"}
                return {value for labels, value in prometheus.values("cdc_check_state") if wanted.items() <= labels.items()}

            graphql.execute_checks([(ASSET, CHECK)])
            until(lambda: state() == {0.0}, "Prometheus does not see the check pass")
            assert {labels["part"] for labels, value in prometheus.values("cdc_part_up") if not value} == set()
            rows = {labels["table"]: value for labels, value in prometheus.values("cdc_rows") if labels["layer"] == "silver"}
            assert rows["city"] == DeltaTable(str(lakehouse.silver("world", "city"))).to_pyarrow_table(columns=[]).num_rows
            assert links_behind(prometheus, "city") == dict.fromkeys(("mirror", "bronze", "silver", "backup"), 0)
            known = len(told(pager))
            remove_rows(lakehouse)
            graphql.execute_checks([(ASSET, CHECK)])
            (red,) = until(lambda: told(pager)[known:], "the pager was not told of the red check")
            assert (red["state"], red["mend"]) == ("red", "cdc reconcile world.city --heal")
            until(lambda: state() == {2.0}, "Prometheus does not see the check fail")
            firing = prometheus.await_alerts("CdcCheckFailed")["CdcCheckFailed"]
            assert [each["table"] for each in firing if each["check"] == CHECK] == ["city"]
            for source, table in COUNTED.items():
                if (lakehouse.sources / f"{source}.yaml").exists():
                    lakehouse.cdc("ledger", f"{source}/{table}", "--count")
            until(lambda: not silent_panels(prometheus, dashboard), "a panel of the dashboard shows nothing")

            lakehouse.cdc(*shlex.split(red["mend"])[1:])
            graphql.execute_checks([(ASSET, CHECK)])
            until(lambda: len(told(pager)) > known + 1, "the pager was not told that it is green")
            assert [alert["state"] for alert in told(pager)[known:]] == ["red", "green"]
            until(lambda: state() == {0.0}, "Prometheus does not see the check pass again")


@pytest.mark.all
def test_a_cycle_that_the_sensor_asked_for_is_traced(lakehouse: Lakehouse, pager: Posts) -> None:
    with lakehouse.connect("world") as world:
        world.execute("UPDATE city SET population = population + 1 WHERE geonameid % 500 = 1")
    lakehouse.cdc("wait", "world", "--timeout", "300")

    def carried() -> bool:
        return any({"cdc_bronze_world", "cdc_silver_world"} <= steps for steps in traced_steps(pager, "offsets_world"))

    until(carried, "the collector has no trace of a cycle of bronze and silver")
