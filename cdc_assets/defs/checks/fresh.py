"""The check `fresh` of silver: when the table last held all there is, against the `freshness` that is declared.

A fold says so, and so does the offsets sensor of a table at rest (defs/sensors/confirmations.py), which reports this check
without a run. Dagster's own freshness policy counts materializations alone, and a table at rest has none (ADR 125).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import dagster as dg

from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.sensors.recent_runs import last_materializations
from cdc_assets.defs.told_changes import UPDATED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.durations import format_duration
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

NAME = "fresh"
DESCRIPTION = "Silver held all there was within `freshness`: by a fold, or because nothing was new."


def fresh_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(NAME, "silver", source, table)


def build_fresh_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    checks = {fresh_key(source, table): table for table in source.tables}

    @table_checks("fresh", source, checks, DESCRIPTION)
    def fresh(context: dg.AssetCheckExecutionContext, _: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        found, now = last_updates(context.instance, [key.asset_key for key in wanted]), time.time()
        for key, table in wanted.items():
            yield fresh_result(source, table, found.get(key.asset_key), now)

    return fresh


def last_updates(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, float]:
    """When each asset was last materialized, or observed to hold all there is: in seconds since 1970."""
    found = {key: event.timestamp for key, event in last_materializations(instance, keys).items()}
    for key in keys:
        for record in instance.fetch_observations(key, limit=1).records:
            if record.asset_observation is not None and UPDATED in record.asset_observation.metadata:
                found[key] = max(found.get(key, 0.0), record.timestamp)
    return found


def fresh_result(source: BaseSource, table: Table, at: float | None, now: float) -> dg.AssetCheckResult:
    """Of a table that held all there was `at` last; None: it never did."""
    key, allowed = fresh_key(source, table), table.freshness or source.freshness
    if at is None:
        return check_result(key, True, "nothing of the table is in silver yet", {})
    age = max(0.0, now - at)
    metadata = {UPDATED: dg.MetadataValue.timestamp(at), "cdc/fail_after": format_duration(allowed.fail_after)}
    fails = age >= allowed.fail_after.total_seconds()
    warns = allowed.warn_after is not None and age >= allowed.warn_after.total_seconds()
    since = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    if not fails and not warns:
        return check_result(key, True, f"silver held all there was at {since}", metadata)
    severity = dg.AssetCheckSeverity.ERROR if fails else dg.AssetCheckSeverity.WARN
    text = f"silver has been behind since {since}: cdc get tables {source.name}"
    return check_result(key, False, text, metadata, severity=severity)
