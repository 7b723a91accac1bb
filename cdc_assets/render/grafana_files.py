"""A dashboard for Grafana: the state of all, and a row of panels for each source of the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.registry.models import BaseSource
from cdc_assets.resources import metric_names as names

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 8, 8
_LIMITS = {"percentunit": {"min": 0, "max": 1}}
"""Grafana draws a share from the least to the most that it has seen, unless it is told the ends."""
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
    yield _panel("Red checks", "stat", {f"count({red}) or vector(0)": "red"}, colours={None: "green", 1: "red"})
    yield _panel("Red checks by name", "table", {red: ""})
    quarantine = {f"sum({names.QUARANTINE})": "open"}
    yield _panel("Records in quarantine", "stat", quarantine, colours={None: "green", 1: "yellow"})
    replicas = {names.UNDER_REPLICATED: "{{cluster}}"}
    yield _panel("Under-replicated partitions", "stat", replicas, colours={None: "green", 1: "red"})
    disk = {f"1 - {names.DISK_FREE} / {names.DISK_SIZE}": "{{place}}"}
    yield _panel("Disk in use", "gauge", disk, unit="percentunit", colours={None: "green", 0.8: "yellow", 0.9: "red"})
    yield _panel("Parts that answer", "stat", {names.PART_UP: "{{part}}"}, colours={None: "red", 1: "green"})


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


def _panel(
    title: str, kind: str, queries: dict[str, str], *, unit: str = "short", colours: Mapping[float | None, str] | None = None
) -> dict[str, Any]:
    """One panel; `colours` by the least value that has them, and by None for what is below all."""
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
    defaults = {
        "unit": unit,
        "mappings": [],
        **_LIMITS.get(unit, {}),
        **({"thresholds": _thresholds(colours)} if colours else {}),
    }
    return {
        "type": kind,
        "title": title,
        "datasource": _SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": [_state_column()] if is_table else []},
        **({"options": {"colorMode": "background"}} if kind == "stat" else {}),
    }


def _thresholds(colours: Mapping[float | None, str]) -> dict[str, Any]:
    return {"mode": "absolute", "steps": [{"value": least, "color": colour} for least, colour in colours.items()]}


def _state_column() -> dict[str, Any]:
    """The column of a table that has a check's state: as a word in its colour. A mapping alone colours no cell."""
    states = {value: {"text": text, "color": colour} for value, (text, colour) in _STATES.items()}
    return {
        "matcher": {"id": "byName", "options": "Value"},
        "properties": [
            {"id": "mappings", "value": [{"type": "value", "options": states}]},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ],
    }
