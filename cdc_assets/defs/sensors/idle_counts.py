"""When a source need not be counted again: nothing has happened since all of it was counted, and was right (ADR 0052).

Two idle sources filled the list of runs with 24 counts an hour that found what the one before had found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord, AssetCheckExecutionRecordStatus

from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.recent_runs import last_materializations
from cdc_assets.registry.models import BaseSource


def why_idle(
    source: BaseSource, instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], every: timedelta, *, now: float
) -> str | None:
    """Why these checks would find what they found; None when they are to run.

    They run where one of them has not passed, or has looked at a part of its table only; where a run has carried something
    since, or tried to; and once in `volumetry.idle_every` at least, which is how old a green may be.
    """
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys])
    if len(latest) < len(keys) or not all(_says_it_all(record) for record in latest.values()):
        return None
    counted, idle = min(record.create_timestamp for record in latest.values()), source.volumetry.idle_every
    # Half a tick early, as for a table's own rhythm.
    if now - counted >= (idle - every / 2).total_seconds():
        return None
    # Some storages keep when a run was changed in whole seconds.
    since = datetime.fromtimestamp(counted - 1, timezone.utc)
    filters = dg.RunsFilter(tags={"cdc/source": source.name}, updated_after=since)
    if instance.get_run_records(filters, limit=1):
        return None
    bronze = [asset_key("bronze", source, table) for table in source.tables]
    if any(event.timestamp > counted for event in last_materializations(instance, bronze).values()):
        return None
    minutes = round((now - counted) / 60)
    return (
        f"nothing has come since all checks passed {minutes} min ago; counted again within {round(idle.total_seconds() / 60)} min"
    )


def _says_it_all(record: AssetCheckExecutionRecord) -> bool:
    evaluation = record.evaluation
    if evaluation is None or record.status not in (
        AssetCheckExecutionRecordStatus.SUCCEEDED,
        AssetCheckExecutionRecordStatus.FAILED,
    ):
        return False
    share = evaluation.metadata.get("cdc/share")
    whole = share is None or share.value == "1/1"
    return whole and (evaluation.passed or evaluation.severity == dg.AssetCheckSeverity.WARN)
