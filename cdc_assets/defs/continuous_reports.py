"""What a continuous run tells Dagster of its tables: as the assets' own events, but only now and then.

A loop makes some commits a second, and Dagster keeps each event for ever. So the commits of half a minute are told as one,
with the same figures and how far silver is behind; cheap checks follow once a minute at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg

from cdc_assets.chain.bronze_append import AppendedTable
from cdc_assets.chain.continuous_passes import FoldedTable
from cdc_assets.chain.continuous_source import CarriedPass
from cdc_assets.chain.lag import TableLag
from cdc_assets.defs.asset_specs import AssetEvent, Event, asset_key, change_event, silver_version
from cdc_assets.defs.check_results import evaluation_of
from cdc_assets.defs.lake_assets import metadata_of_append, metadata_of_fold
from cdc_assets.defs.row_checks import quarantine_evaluation
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

EVERY_SECONDS, CHECKS_SECONDS = 30.0, 60.0
Lags = Callable[[], Mapping[str, TableLag]]


class ContinuousReports:
    """Of one source; the commits that are not told yet, and when each table was told of last."""

    def __init__(
        self,
        lake: str,
        source: BaseSource,
        *,
        told: Callable[[dg.AssetKey], str | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`told`: the data version that Dagster knows of an asset."""
        self._lake, self._source, self._clock, self._began = lake, source, clock, clock()
        self._appended: dict[str, AppendedTable] = {}
        self._folded: dict[str, FoldedTable] = {}
        self._told: dict[tuple[str, str], float] = {}
        self._version_before, self._versions = told, dict[dg.AssetKey, str | None]()

    def add(self, done: CarriedPass) -> None:
        """What a pass has done."""
        for appended in done.appended:
            before = self._appended.get(_short(appended))
            self._appended[_short(appended)] = before + appended if before else appended
        for folded in done.folded:
            folded_before = self._folded.get(_short(folded))
            self._folded[_short(folded)] = folded_before + folded if folded_before else folded

    def due(self, lags: Lags, *, all_of_it: bool = False) -> Iterator[Event]:
        """The events whose time has come, or all; `lags` is asked where there is one, and may know of no table."""
        now = self._clock()
        layers: tuple[tuple[str, Mapping[str, AppendedTable | FoldedTable]], ...]
        layers = (("bronze", self._appended), ("silver", self._folded))
        due = [
            (layer, short)
            for layer, waiting in layers
            for short in waiting
            if all_of_it or now - self._told.get((layer, short), -EVERY_SECONDS) >= EVERY_SECONDS
        ]
        behind = lags() if due else {}
        for layer, short in due:
            seconds = now - self._told.get((layer, short), self._began)
            self._told[layer, short] = now
            yield self._event(layer, short, seconds, behind.get(short))
            if layer == "silver":
                yield from self._checks(self._source.table(short), now)

    def _event(self, layer: str, short: str, seconds: float, lag: TableLag | None) -> AssetEvent:
        table = self._source.table(short)
        key, version_before, version = asset_key(layer, self._source, table), None, None
        if layer == "bronze":
            appended = self._appended.pop(short)
            metadata, records = metadata_of_append(appended), appended.added
        else:
            one = self._folded.pop(short)
            metadata, records = metadata_of_fold(self._lake, self._source, table, one.found, one.results), one.events
            version_before = self._versions[key] if key in self._versions else self._version_before(key)
            version = self._versions[key] = silver_version(self._lake, self._source, table, version_before)
        metadata = {**metadata, **_flow(records, seconds, lag)}
        return change_event(key, metadata, version, version_before, description="by continuous mode")

    def _checks(self, table: Table, now: float) -> Iterator[dg.AssetCheckEvaluation]:
        checks_key = ("checks", names.table_name(table))
        if now - self._told.get(checks_key, -CHECKS_SECONDS) < CHECKS_SECONDS:
            return
        self._told[checks_key] = now
        yield quarantine_evaluation(self._lake, self._source, table)
        yield evaluation_of(schema_result(self._lake, self._source, table))


def _short(each: AppendedTable | FoldedTable) -> str:
    return names.table_name(each.table)


def _flow(records: int, seconds: float, lag: TableLag | None) -> dict[str, Any]:
    """As numbers, so that the asset's page plots them; what is not known is left out."""
    flow: dict[str, Any] = {"cdc/mode": "continuous", "cdc/throughput": round(records / seconds, 1) if seconds else 0.0}
    if lag is not None:
        flow["cdc/lag_records"] = lag.records
        flow |= {} if lag.seconds is None else {"cdc/lag_seconds": round(lag.seconds, 3)}
    return flow
