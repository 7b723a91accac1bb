"""What Prometheus is told of the registry: whom to ask, and when to call somebody, with the command that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets import settings
from cdc_assets.registry.durations import format_duration
from cdc_assets.registry.models import BaseSource
from cdc_assets.render.manifest import to_yaml
from cdc_assets.resources import metric_names as names

_PAGE = "docs/reference/checks.md"
PORT = 9309
"""Of `cdc metrics`."""


def prometheus_files(sources: Sequence[BaseSource]) -> dict[str, str]:
    """The target's files by path: what asks `cdc metrics`, and the alerts, which a configuration of yours names as well."""
    scrape = {"job_name": "cdc_assets", "scrape_interval": "30s", "static_configs": [{"targets": [f"127.0.0.1:{PORT}"]}]}
    groups = [{"name": "cdc_assets", "rules": [*_common()]}]
    groups += [{"name": f"cdc_assets.{source.name}", "rules": [*_of_source(source)]} for source in sources]
    config = {"rule_files": ["alerts.yaml"], "scrape_configs": [scrape, *_of_jvms(settings.jmx_addresses())]}
    return {"prometheus/alerts.yaml": to_yaml([{"groups": groups}]), "prometheus/prometheus.yaml": to_yaml([config])}


def _of_jvms(addresses: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """One job for all that serve figures of their own, with the name of each."""
    targets = [{"targets": [address], "labels": {"part": part}} for part, address in addresses.items()]
    if targets:
        yield {"job_name": "cdc_jmx", "scrape_interval": "30s", "static_configs": targets}


def _common() -> Iterator[dict[str, Any]]:
    """Of every source alike."""
    check = "{{ $labels.layer }} {{ $labels.source }} {{ $labels.table }}: {{ $labels.check }}"
    yield _rule("CdcCheckFailed", f"{names.CHECK} == {names.CHECK_STATES['failed']}", "1m", f"{check} is red", "cdc status")
    yield _rule(
        "CdcCheckWarns", f"{names.CHECK} == {names.CHECK_STATES['warned']}", "1h", f"{check} warns", "cdc status", page=False
    )
    table = "{{ $labels.source }}/{{ $labels.table }}"
    yield _rule("CdcTableError", f"{names.TABLE_ERROR} == 1", "5m", f"{table}: its chain has an error", "cdc status")
    yield _rule(
        "CdcQuarantine",
        f"{names.QUARANTINE} > 0",
        "1m",
        f"{table}: {{{{ $value }}}} records are in quarantine",
        "cdc quarantine list",
    )
    yield _rule(
        "CdcUnderReplicated",
        f"{names.UNDER_REPLICATED} > 0",
        "10m",
        "{{ $labels.cluster }}: {{ $value }} partitions lack a replica",
        "kafka-topics.sh --describe --under-replicated-partitions",
    )
    full = f"{names.DISK_FREE} / {names.DISK_SIZE} < 0.1"
    yield _rule("CdcDiskFull", full, "5m", "the disk of {{ $labels.place }} has less than a tenth left", "df -h")
    away = "{{ $labels.part }} cannot be asked, so its figures and alerts are silent"
    yield _rule("CdcPartAway", f"{names.PART_UP} == 0", "5m", away, "cdc status")
    yield _rule("CdcMetricsAway", 'absent(up{job="cdc_assets"} == 1)', "5m", "nobody serves the figures", "cdc metrics")


def _of_source(source: BaseSource) -> Iterator[dict[str, Any]]:
    """That silver is behind for longer than the source allows."""
    window = format_duration(source.freshness.fail_after)
    for link in ("mirror", "bronze", "silver"):
        behind = f'min_over_time({names.LAG}{{source="{source.name}", link="{link}"}}[{window}]) > 0'
        told = f"{{{{ $labels.source }}}}/{{{{ $labels.table }}}}: {link} has been behind for {window}"
        rule = _rule(f"Cdc{link.capitalize()}Behind", behind, "1m", told, f"cdc get tables {source.name}")
        # Rules of one name have to differ by a label.
        yield {**rule, "labels": {**rule["labels"], "source": source.name}}


def _rule(alert: str, expression: str, duration: str, summary: str, mend: str, *, page: bool = True) -> dict[str, Any]:
    annotations = {"summary": summary, "mend": mend, "runbook": _PAGE}
    return {
        "alert": alert,
        "expr": expression,
        "for": duration,
        "labels": {"severity": "page" if page else "ticket"},
        "annotations": annotations,
    }
