"""A table that could not be compared: a warning of its own kind, and red only when it has lasted.

Since when is kept in the check's own evaluations, and so is when and up to where the rows were compared before that. What the
last comparison found is not forgiven meanwhile: a difference stays one until a comparison finds none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.reconcile.result import TableResult
from cdc_assets.registry.durations import format_duration
from cdc_assets.volumetry.rows_compared import AT_KEY, PART_KEY, POSITION_KEY, RowsCompared, of_metadata

SINCE_KEY, DIFFERED_KEY = "cdc/not_compared_since", "cdc/differed_before"
_TOLD = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}


@dataclass(frozen=True)
class Uncompared:
    """Since when, whether the comparison before that (`last`) had found a difference, and how long it may last (`red_after`).

    `red_after` None: for ever, of a table that nobody has asked to be compared, and that never was.
    """

    since: datetime
    differed: bool
    red_after: timedelta | None
    last: RowsCompared | None = None

    def severity(self, now: datetime) -> dg.AssetCheckSeverity:
        """An error when it has lasted, or would hide a difference."""
        return dg.AssetCheckSeverity.ERROR if self.differed or self._has_lasted(now) else dg.AssetCheckSeverity.WARN

    def _has_lasted(self, now: datetime) -> bool:
        return self.red_after is not None and now - self.since >= self.red_after

    def sentence(self, result: TableResult, now: datetime) -> str:
        """What stands in the way, that it is no difference, and what to do."""
        since = f"{self.since:%Y-%m-%d %H:%M} UTC"
        command = f"cdc reconcile {result.table.replace('/', '.')}"
        if self.differed:
            return f"{result.sentence()}. The last comparison, before {since}, found a difference: {command}"
        if self._has_lasted(now):
            return f"{result.sentence()}. No difference was found, but this lasts since {since}: mend it, then {command}"
        if self.red_after is None:
            way = "mend it, or declare reconciliation: {every: never}"
            return f"{result.sentence()}. Its rows were never compared, which is tried again each time: {command}; {way}"
        red = f"red after {format_duration(self.red_after)}"
        return f"{result.sentence()}. No difference was found; it is tried again (since {since}, {red}): {command}"

    def metadata(self) -> dict[str, Any]:
        """By which the next evaluation knows."""
        told: dict[str, Any] = {SINCE_KEY: dg.MetadataValue.timestamp(self.since), DIFFERED_KEY: self.differed}
        if self.last is not None:
            told |= {AT_KEY: dg.MetadataValue.timestamp(self.last.at), PART_KEY: self.last.part}
            told |= {POSITION_KEY: self.last.position} if self.last.position else {}
        return told


def standstill(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, now: datetime, red_after: timedelta, *, is_asked: bool = True
) -> Uncompared:
    """Of a table that cannot be compared now; told by the evaluation before this one.

    `is_asked`: its comparison is declared, and so is how long it may be missing.
    """
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=1, status=_TOLD):
        before = record.evaluation
        if before is None:
            break
        last = of_metadata({name: value.value for name, value in before.metadata.items()}, record.create_timestamp)
        limit = red_after if is_asked or last is not None else None
        if SINCE_KEY in before.metadata:
            since: Any = before.metadata[SINCE_KEY].value
            return Uncompared(datetime.fromtimestamp(since, timezone.utc), bool(before.metadata[DIFFERED_KEY].value), limit, last)
        return Uncompared(now, not before.passed, limit, last)
    return Uncompared(now, differed=False, red_after=red_after if is_asked else None)
