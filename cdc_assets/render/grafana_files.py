"""A dashboard for Grafana: the state of all, and a row of panels for each source of the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from cdc_assets.registry.models import BaseSource
from cdc_assets.resources import metric_names as names

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 8, 8
_STATES = {"0": ("passed", "green"), "1": ("warns", "yellow"), "2": ("failed", "red"), "3": ("not run", "text")}


def grafana_files(sources: Sequence[BaseSource]) -> dict[str, str]:
    """The target's one file: grafana/cdc_assets.json, to be imported or provisioned."""
    panels, y = list[dict[str, Any]](), 0
    for title, row in [("All sources", [*_common()]), *((f"Source {s.name}", [*_of_source(s)]) for s in sources)]:
        panels.append(
            {"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []}
        )
        y += 1
        for number, panel in enumerate(row):
            place = {"x": number % 3 * _WIDTH, "y": y + number // 3 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            panels.append({**panel, "gridPos": place})
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


def _common() -> Iterator[dict[str, Any]]:
    red = f"{names.CHECK} == {names.CHECK_STATES['failed']}"
    yield _panel("Red checks", "stat", {f"count({red}) or vector(0)": "red"})
    yield _panel("Red checks by name", "table", {red: ""})
    yield _panel("Records in quarantine", "stat", {f"sum({names.QUARANTINE})": "open"})
    yield _panel("Under-replicated partitions", "stat", {names.UNDER_REPLICATED: "{{cluster}}"})
    yield _panel("Disk in use", "gauge", {f"1 - {names.DISK_FREE} / {names.DISK_SIZE}": "{{place}}"}, unit="percentunit")
    yield _panel("Parts that answer", "stat", {names.PART_UP: "{{part}}"})


def _of_source(source: BaseSource) -> Iterator[dict[str, Any]]:
    of = f'source="{source.name}"'
    yield _panel("Records behind, by link", "timeseries", {f"sum by (link) ({names.LAG}{{{of}}})": "{{link}}"})
    yield _panel("Records behind in silver, by table", "timeseries", {f'{names.LAG}{{{of}, link="silver"}}': "{{table}}"})
    yield _panel("Rows", "timeseries", {f"{names.ROWS}{{{of}}}": "{{table}} {{layer}}"})
    yield _panel("Events of 24 hours, by fate", "bargauge", {f"sum by (fate) ({names.EVENTS}{{{of}}})": "{{fate}}"})
    yield _panel(
        "Seconds of the last work", "timeseries", {f"max by (layer) ({names.WORK_SECONDS}{{{of}}})": "{{layer}}"}, unit="s"
    )
    yield _panel("Checks", "table", {f"{names.CHECK}{{{of}}}": ""})


def _panel(title: str, kind: str, queries: dict[str, str], *, unit: str = "short") -> dict[str, Any]:
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
    states = {value: {"text": text, "color": colour} for value, (text, colour) in _STATES.items()}
    mappings = [{"type": "value", "options": states}] if is_table else []
    defaults = {"unit": unit, "mappings": mappings}
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }
