"""A table that could not be compared: a warning of its own kind, and red only when it has lasted.

Since when is kept in the check's own evaluations. What the last comparison found is not forgiven meanwhile: a difference
stays one until a comparison finds none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.reconcile.result import TableResult
from cdc_assets.registry.durations import format_duration

SINCE_KEY, DIFFERED_KEY = "cdc/not_compared_since", "cdc/differed_before"
_TOLD = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


@dataclass(frozen=True)
class Uncompared:
    """Since when, whether the comparison before that had found a difference, and how long it may last (`red_after`)."""

    since: datetime
    differed: bool
    red_after: timedelta

    def severity(self, now: datetime) -> dg.AssetCheckSeverity:
        """An error when it has lasted, or would hide a difference."""
        red = self.differed or now - self.since >= self.red_after
        return dg.AssetCheckSeverity.ERROR if red else dg.AssetCheckSeverity.WARN

    def sentence(self, result: TableResult, now: datetime) -> str:
        """What stands in the way, that it is no difference, and what to do."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC"
        command = f"cdc reconcile {result.table.replace('/', '.')}"
        if self.differed:
            return f"{result.sentence()}. The last comparison, before {since}, found a difference: {command}"
        if now - self.since >= self.red_after:
            return f"{result.sentence()}. No difference was found, but this lasts since {since}: mend it, then {command}"
        red = f"red after {format_duration(self.red_after)}"
        return f"{result.sentence()}. No difference was found; it is tried again (since {since}, {red}): {command}"

    def metadata(self) -> dict[str, Any]:
        """By which the next evaluation knows."""
        return {SINCE_KEY: dg.MetadataValue.timestamp(self.since), DIFFERED_KEY: self.differed}


def standstill(instance: dg.DagsterInstance, key: dg.AssetCheckKey, now: datetime, red_after: timedelta) -> Uncompared:
    """Of a table that cannot be compared now; told by the evaluation before this one."""
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=_TOLD):
        before = record.evaluation
        if before is None:
            break
        if SINCE_KEY in before.metadata:
            since: Any = before.metadata[SINCE_KEY].value
            return Uncompared(datetime.fromtimestamp(since, timezone.utc), bool(before.metadata[DIFFERED_KEY].value), red_after)
        return Uncompared(now, not before.passed, red_after)
    return Uncompared(now, differed=False, red_after=red_after)
