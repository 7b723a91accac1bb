"""What Prometheus and Grafana are told of the registry: whom to ask, when to call somebody, and a dashboard.

Each alert carries the command that mends it. The dashboard has the state of all, and a row of panels for each source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.deploy import metric_names as names
from cdc_assets.deploy.manifest import to_yaml
from cdc_assets.registry import settings
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource

_PAGE = "docs/reference/checks.md"
PORT = 9309
"""Of `cdc metrics`."""


def prometheus_files(sources: Sequence[BaseSource]) -> dict[str, str]:
    """The target's files by path: what asks `cdc metrics`, and the alerts, which a configuration of yours names as well."""
    scrape = {"job_name": "cdc_assets", "scrape_interval": "30s", "static_configs": [{"targets": [f"127.0.0.1:{PORT}"]}]}
    groups = [{"name": "cdc_assets", "rules": [*_common_alerts()]}]
    groups += [{"name": f"cdc_assets.{source.name}", "rules": [*_alerts_of_source(source)]} for source in sources]
    # One job for all that serve figures of their own, with the name of each.
    targets = [{"targets": [address], "labels": {"part": component}} for component, address in settings.jmx_addresses().items()]
    of_jvms = [{"job_name": "cdc_jmx", "scrape_interval": "30s", "static_configs": targets}] if targets else []
    config = {"rule_files": ["alerts.yaml"], "scrape_configs": [scrape, *of_jvms]}
    return {"prometheus/alerts.yaml": to_yaml([{"groups": groups}]), "prometheus/prometheus.yaml": to_yaml([config])}


def _common_alerts() -> Iterator[dict[str, Any]]:
    check = "{{ $labels.layer }} {{ $labels.source }} {{ $labels.table }}: {{ $labels.check }}"
    yield _rule("CdcCheckFailed", f"{names.CHECK} == {names.CHECK_STATES['failed']}", "1m", f"{check} is red", "cdc status")
    warned = f"{names.CHECK} == {names.CHECK_STATES['warned']}"
    yield _rule("CdcCheckWarns", warned, "1h", f"{check} warns", "cdc status", page=False)
    table = "{{ $labels.source }}/{{ $labels.table }}"
    yield _rule("CdcTableError", f"{names.TABLE_ERROR} == 1", "5m", f"{table}: its chain has an error", "cdc status")
    aside = f"{table}: {{{{ $value }}}} records are in quarantine"
    yield _rule("CdcQuarantine", f"{names.QUARANTINE} > 0", "1m", aside, "cdc quarantine list")
    lacking = "{{ $labels.cluster }}: {{ $value }} partitions lack a replica"
    describe = "kafka-topics.sh --describe --under-replicated-partitions"
    yield _rule("CdcUnderReplicated", f"{names.UNDER_REPLICATED} > 0", "10m", lacking, describe)
    full = f"{names.DISK_FREE} / {names.DISK_SIZE} < 0.1"
    yield _rule("CdcDiskFull", full, "5m", "the disk of {{ $labels.place }} has less than a tenth left", "df -h")
    away = "{{ $labels.part }} cannot be asked, so its figures and alerts are silent"
    yield _rule("CdcPartAway", f"{names.PART_UP} == 0", "5m", away, "cdc status")
    yield _rule("CdcMetricsAway", 'absent(up{job="cdc_assets"} == 1)', "5m", "nobody serves the figures", "cdc metrics")


def _alerts_of_source(source: BaseSource) -> Iterator[dict[str, Any]]:
    window = format_duration(source.freshness.fail_after)
    for link in ("mirror", "bronze", "silver"):
        behind = f'min_over_time({names.LAG}{{source="{source.name}", link="{link}"}}[{window}]) > 0'
        summary = f"{{{{ $labels.source }}}}/{{{{ $labels.table }}}}: {link} has been behind for {window}"
        rule = _rule(f"Cdc{link.capitalize()}Behind", behind, "1m", summary, f"cdc get tables {source.name}")
        # Rules of one name have to differ by a label.
        yield {**rule, "labels": {**rule["labels"], "source": source.name}}


def _rule(alert: str, expression: str, duration: str, summary: str, mend: str, *, page: bool = True) -> dict[str, Any]:
    annotations = {"summary": summary, "mend": mend, "runbook": _PAGE}
    labels = {"severity": "page" if page else "ticket"}
    return {"alert": alert, "expr": expression, "for": duration, "labels": labels, "annotations": annotations}


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 8, 8
_LIMITS = {"percentunit": {"min": 0, "max": 1}}
"""Grafana draws a share from the least to the most that it has seen, unless it is told the ends."""
_STATES = {"0": ("passed", "green"), "1": ("warns", "yellow"), "2": ("failed", "red"), "3": ("not run", "text")}


def grafana_files(sources: Sequence[BaseSource]) -> dict[str, str]:
    """The target's one file: grafana/cdc_assets.json, to be imported or provisioned."""
    panels, y = list[dict[str, Any]](), 0
    for title, row in [("All sources", [*_common_panels()]), *((f"Source {s.name}", [*_panels_of_source(s)]) for s in sources)]:
        position = {"x": 0, "y": y, "w": 24, "h": 1}
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": position, "panels": []})
        y += 1
        for number, panel in enumerate(row):
            position = {"x": number % 3 * _WIDTH, "y": y + number // 3 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            panels.append({**panel, "gridPos": position})
        y += (len(row) + 2) // 3 * _HEIGHT
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
    dashboard = {
        "uid": "cdc-assets",
        "title": "cdc_assets",
        "tags": ["cdc"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    return {"grafana/cdc_assets.json": json.dumps(dashboard, indent=2) + "\n"}


def _common_panels() -> Iterator[dict[str, Any]]:
    red = f"{names.CHECK} == {names.CHECK_STATES['failed']}"
    yield _panel("Red checks", "stat", {f"count({red}) or vector(0)": "red"}, colours={None: "green", 1: "red"})
    yield _panel("Red checks by name", "table", {red: ""})
    quarantine = {f"sum({names.QUARANTINE})": "open"}
    yield _panel("Records in quarantine", "stat", quarantine, colours={None: "green", 1: "yellow"})
    replicas = {names.UNDER_REPLICATED: "{{cluster}}"}
    yield _panel("Under-replicated partitions", "stat", replicas, colours={None: "green", 1: "red"})
    disk = {f"1 - {names.DISK_FREE} / {names.DISK_SIZE}": "{{place}}"}
    yield _panel("Disk in use", "gauge", disk, unit="percentunit", colours={None: "green", 0.8: "yellow", 0.9: "red"})
    yield _panel("Parts that answer", "stat", {names.PART_UP: "{{part}}"}, colours={None: "red", 1: "green"})


def _panels_of_source(source: BaseSource) -> Iterator[dict[str, Any]]:
    of = f'source="{source.name}"'
    yield _panel("Records behind, by link", "timeseries", {f"sum by (link) ({names.LAG}{{{of}}})": "{{link}}"})
    yield _panel("Records behind in silver, by table", "timeseries", {f'{names.LAG}{{{of}, link="silver"}}': "{{table}}"})
    yield _panel("Rows", "timeseries", {f"{names.ROWS}{{{of}}}": "{{table}} {{layer}}"})
    yield _panel("Events of 24 hours, by fate", "bargauge", {f"sum by (fate) ({names.EVENTS}{{{of}}})": "{{fate}}"})
    seconds = {f"max by (layer) ({names.WORK_SECONDS}{{{of}}})": "{{layer}}"}
    yield _panel("Seconds of the last work", "timeseries", seconds, unit="s")
    yield _panel("Checks", "table", {f"{names.CHECK}{{{of}}}": ""})


def _panel(
    title: str, kind: str, queries: dict[str, str], *, unit: str = "short", colours: Mapping[float | None, str] | None = None
) -> dict[str, Any]:
    # `colours` by the least value that has them, and by None for what is below all.
    is_table = kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "instant": is_table,
            "format": "table" if is_table else "time_series",
        }
        for number, (expression, legend) in enumerate(queries.items())
    ]
    defaults = {"unit": unit, "mappings": [], **_LIMITS.get(unit, {})}
    if colours:
        steps = [{"value": least, "color": colour} for least, colour in colours.items()]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": [_state_column()] if is_table else []},
        **({"options": {"colorMode": "background"}} if kind == "stat" else {}),
    }


def _state_column() -> dict[str, Any]:
    # A check's state as a word in its colour. A mapping alone colours no cell of a table.
    states = {value: {"text": text, "color": colour} for value, (text, colour) in _STATES.items()}
    return {
        "matcher": {"id": "byName", "options": "Value"},
        "properties": [
            {"id": "mappings", "value": [{"type": "value", "options": states}]},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ],
    }
