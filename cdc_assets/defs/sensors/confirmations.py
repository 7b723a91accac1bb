"""An idle table is confirmed to be up to date, without a run: the sensor has just seen that nothing is new.

Freshness counts from the last materialization (Dagster's time-window freshness policy). Without these events a table
that nobody writes to would go stale, or a run would have to start every half window only to do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.news import TableNews
from cdc_assets.defs.sensors.recent_runs import last_materializations
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_rows
from cdc_assets.resources.platform import Platform

_DONE_BY_A_RUN = frozenset(
    f"cdc/{name}"
    for name in (
        *("events_folded", "rows_inserted", "rows_updated", "rows_deleted", "records_quarantined", "late_events"),
        *("keys_folded_again", "seconds", "events_per_second", "history_versions_added", "history_versions_changed"),
        *("history_keys_folded_again", "history_seconds"),
    )
)


def confirmations(
    instance: dg.DagsterInstance,
    platform: Platform,
    source: BaseSource,
    news: Iterable[TableNews],
    *,
    busy: Collection[str],
    now: float,
) -> list[dg.AssetMaterialization]:
    """One for each silver table that holds all there is, once half of its freshness window has passed since the last."""
    idle = {n.table for n in news if not n.waiting and not n.silver_behind} - set(busy)
    keys = {asset_key("silver", source, t): t for t in source.tables if names.table_name(t) in idle}
    last = last_materializations(instance, [*keys])
    events = (_confirmation(platform, source, table, key, last.get(key), now) for key, table in keys.items())
    return [event for event in events if event is not None]


def _confirmation(
    platform: Platform, source: BaseSource, table: Table, key: dg.AssetKey, last: dg.EventLogEntry | None, now: float
) -> dg.AssetMaterialization | None:
    window = (table.freshness or source.freshness).fail_after.total_seconds()
    if last is not None and now - last.timestamp <= window / 2:
        return None
    rows = silver_rows(names.silver_path(platform.lake, source, table))
    if rows is None:
        return None
    return dg.AssetMaterialization(
        key,
        description="nothing new since the last run; silver holds all there is",
        metadata={**_last_metadata(last), "dagster/row_count": rows},
    )


def _last_metadata(last: dg.EventLogEntry | None) -> dict[str, Any]:
    """What the last run told of the table, so that its page stays whole; what it had done then is 0 now."""
    if last is None or last.asset_materialization is None:
        return {}
    told: dict[str, Any] = dict(last.asset_materialization.metadata)
    told |= {name: 0 for name in told if name in _DONE_BY_A_RUN}
    if "cdc/events_by_op" in told:
        told["cdc/events_by_op"] = dg.MetadataValue.json({})
    if last.run_id and "cdc/last_run" not in told:
        told |= {
            "cdc/last_run": dg.MetadataValue.dagster_run(last.run_id),
            "cdc/last_run_at": dg.MetadataValue.timestamp(last.timestamp),
        }
    return told
