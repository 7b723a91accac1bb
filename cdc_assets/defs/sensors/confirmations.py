"""What the offsets sensor tells of silver without a run: a table at rest holds all there is, and one that is late does not.

A table at rest is observed, with the data version of its rows: nothing behind it is built again, and its checks keep their last
verdict (ADR 125). Only where its rows have changed beside Dagster (a replay or a healing by the command line) it is materialized.
The check `fresh` is reported beside that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from cdc_assets import names
from cdc_assets.defs.checks.fresh import fresh_key, fresh_result, last_updates
from cdc_assets.defs.checks.result import evaluation_of
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.news import TableNews
from cdc_assets.defs.sensors.recent_runs import last_materializations
from cdc_assets.defs.told_changes import Event, change_event, silver_version, version_in
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_rows
from cdc_assets.resources.platform import Platform

_SETTLED_SECONDS = 60.0
"""After a fold a table that goes on being folded is not told of each time."""
_GAP_SECONDS = 300.0
"""Between two looks of a sensor that was away meanwhile, as when the stack stood still."""


@dataclass(frozen=True)
class Lateness:
    """Since when (epoch seconds) each table has not held all there is, as the sensor's looks have seen it without a gap."""

    since: Mapping[str, float]
    looked_at: float

    def look(self, behind: Collection[str], now: float) -> Lateness:
        """With what this look has found."""
        kept = self.since if now - self.looked_at <= _GAP_SECONDS else {}
        return Lateness({table: kept.get(table, now) for table in behind}, now)


@dataclass(frozen=True)
class SilverTable:
    """What Dagster knows of a silver table: its last materialization, and the last verdict of `fresh`."""

    source: BaseSource
    table: Table
    last: dg.EventLogEntry | None
    told: AssetCheckExecutionRecord | None

    @property
    def key(self) -> dg.AssetKey:
        """Of the silver asset."""
        return asset_key("silver", self.source, self.table)

    @property
    def made_at(self) -> float:
        """When it was materialized last; 0: never."""
        return self.last.timestamp if self.last is not None else 0.0

    @property
    def verdict(self) -> tuple[bool, dg.AssetCheckSeverity] | None:
        """Whether it passed and how bad it is; None: nothing was told."""
        found = self.told.evaluation if self.told is not None else None
        return (found.passed, found.severity) if found is not None else None

    @property
    def passed_at(self) -> float:
        """When it was told last that it is fresh; 0: not since it was late, or never."""
        return self.told.create_timestamp if self.told is not None and (self.verdict or (False,))[0] else 0.0


def tables_at_rest(news: Iterable[TableNews], busy: Collection[str]) -> frozenset[str]:
    """Those that hold all there is, and are in no run."""
    return frozenset(n.table for n in news if not n.has_news) - set(busy)


def rest_events(
    instance: dg.DagsterInstance, platform: Platform, source: BaseSource, resting: Collection[str], late: Lateness
) -> list[Event]:
    """What is to be told of the source's silver tables at the look `late`."""
    tables = [t for t in source.tables if names.table_name(t) in {*resting, *late.since}]
    keys = {fresh_key(source, table): table for table in tables}
    last = last_materializations(instance, [key.asset_key for key in keys])
    told = instance.event_log_storage.get_latest_asset_check_execution_by_key([*keys]) if keys else {}
    events: list[Event] = []
    for key, table in keys.items():
        found = SilverTable(source, table, last.get(key.asset_key), told.get(key))
        name = names.table_name(table)
        if name in resting:
            events += _confirmation(platform, found, late.looked_at)
        else:
            events += _lateness(instance, found, late.since[name], late.looked_at)
    return events


def _confirmation(platform: Platform, found: SilverTable, now: float) -> Iterator[Event]:
    """That the table holds all there is: twice in its window, and once its fold is a minute old."""
    window = (found.table.freshness or found.source.freshness).fail_after.total_seconds()
    due = now - max(found.made_at, found.passed_at) > window / 2
    unsaid = found.passed_at < found.made_at and now - found.made_at > _SETTLED_SECONDS
    if not due and not unsaid and (found.verdict is None or found.verdict[0]):
        return
    rows = silver_rows(names.silver_path(platform.lake, found.source, found.table))
    if rows is None:
        return
    if due:
        told = version_in(found.last)
        version = silver_version(platform.lake, found.source, found.table, told)
        metadata = {"dagster/row_count": rows} if version == told else {**_last_metadata(found.last), "dagster/row_count": rows}
        text = "nothing new since the last run; silver holds all there is"
        yield change_event(found.key, metadata, version, told, description=text)
    yield evaluation_of(fresh_result(found.source, found.table, now, now))


def _lateness(instance: dg.DagsterInstance, found: SilverTable, since: float, now: float) -> Iterator[dg.AssetCheckEvaluation]:
    """That the table is late, or is not any more, where Dagster has been told otherwise."""
    result = fresh_result(found.source, found.table, max(since, found.made_at), now)
    if not result.passed:
        # Folds that changed no row are observations, which only a query for each table tells.
        at = last_updates(instance, [found.key]).get(found.key, 0.0)
        result = fresh_result(found.source, found.table, max(since, at), now)
    if (result.passed, result.severity) != (found.verdict or (True, result.severity)):
        yield evaluation_of(result)


def _last_metadata(last: dg.EventLogEntry | None) -> Mapping[str, Any]:
    """What was told of the table, so that its page stays whole."""
    return last.asset_materialization.metadata if last is not None and last.asset_materialization is not None else {}
