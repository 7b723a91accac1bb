"""An idle table is confirmed to be up to date, without a run: the sensor has just seen that nothing is new.

Freshness counts from the last materialization (Dagster's time-window freshness policy). Without these events a table
that nobody writes to would go stale, or a run would have to start every half window only to do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.delta_log import silver_rows
from cdc_assets.resources.platform import Platform
from cdc_assets.sensors.news import TableNews


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
    events = (_confirmation(instance, platform, source, t, now) for t in source.tables if names.table_name(t) in idle)
    return [event for event in events if event is not None]


def _confirmation(
    instance: dg.DagsterInstance, platform: Platform, source: BaseSource, table: Table, now: float
) -> dg.AssetMaterialization | None:
    window = (table.freshness or source.freshness).fail_after.total_seconds()
    key = dg.AssetKey(names.asset_key("silver", source, table))
    last = instance.get_latest_materialization_event(key)
    if last is not None and now - last.timestamp <= window / 2:
        return None
    rows = silver_rows(names.silver_path(platform.lake, source, table))
    if rows is None:
        return None
    kept = last.asset_materialization.metadata if last and last.asset_materialization else {}
    # Row count, columns and lineage are still those of the last run; its figures are not those of this moment.
    metadata: dict[str, Any] = {name: value for name, value in kept.items() if name.startswith("dagster/")}
    metadata |= {"dagster/row_count": rows, "cdc/events_folded": 0}
    return dg.AssetMaterialization(
        key, description="nothing new since the last run; silver holds all there is", metadata=metadata
    )
