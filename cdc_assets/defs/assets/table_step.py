"""One layer's assets of a source: one subsettable step for all of its tables."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.assets.specs import table_spec
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.sensors.recent_runs import last_materializations
from cdc_assets.defs.told_changes import VersionOf, observation, version_in
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

TableMetadata = Iterator[tuple[Table, Mapping[str, Any]]]
"""Each table that was materialized, and what Dagster shows of it."""
Work = Callable[[dg.AssetExecutionContext, Platform, list[Table]], TableMetadata]


def table_step(
    layer: str,
    source: BaseSource,
    *,
    work: str | None = None,
    tags: Mapping[str, str] | None = None,
    version_of: VersionOf | None = None,
) -> Callable[[Work], dg.AssetsDefinition]:
    """Make a function the layer's step; it is given the tables that the run has selected. `work` names the step, `tags` are the
    op's. With `version_of` a table is materialized where its rows have changed, and else observed."""

    def make(materialize: Work) -> dg.AssetsDefinition:
        specs = [table_spec(layer, source, table) for table in source.tables]

        @dg.multi_asset(specs=specs, name=names.op_name(work or layer, source), can_subset=True, op_tags=tags)
        def step(
            context: dg.AssetExecutionContext, platform: PlatformResource
        ) -> Iterator[dg.MaterializeResult | dg.AssetObservation]:
            selected = [table for table in source.tables if asset_key(layer, source, table) in context.selected_asset_keys]
            done = ((asset_key(layer, source, table), table, told) for table, told in materialize(context, platform, selected))
            if version_of is None:
                yield from (dg.MaterializeResult(asset_key=key, metadata=metadata) for key, _, metadata in done)
            else:
                last = last_materializations(context.instance, [asset_key(layer, source, table) for table in selected])
                versions = partial(_version_and_last, version_of, platform.lake, last)
                yield from _tell_changes(
                    context, ((key, metadata, *versions(key, table, metadata)) for key, table, metadata in done)
                )

        return step

    return make


def _version_and_last(
    version_of: VersionOf,
    lake: str,
    last: Mapping[dg.AssetKey, dg.EventLogEntry],
    key: dg.AssetKey,
    table: Table,
    metadata: Mapping[str, Any],
) -> tuple[str | None, str | None]:
    told = version_in(last.get(key))
    return version_of(lake, table, metadata, told), told


def _tell_changes(
    context: dg.AssetExecutionContext, done: Iterator[tuple[dg.AssetKey, Mapping[str, Any], str | None, str | None]]
) -> Iterator[dg.MaterializeResult | dg.AssetObservation]:
    """What has changed as it comes, and at the end what has not.

    Dagster starts nothing behind an asset that a step has not materialized, and shows each asset as failed that a failed step
    has not. So what has not changed is materialized where the run goes on behind it, and where the step fails.
    """
    same: list[tuple[dg.AssetKey, Mapping[str, Any], str]] = []
    try:
        for key, metadata, version, told in done:
            if version is not None and version == told and not _goes_on_behind(context, key):
                same.append((key, metadata, version))
            else:
                yield dg.MaterializeResult(
                    asset_key=key, metadata=metadata, data_version=None if version is None else dg.DataVersion(version)
                )
    except Exception:
        yield from (dg.MaterializeResult(asset_key=k, metadata=m, data_version=dg.DataVersion(v)) for k, m, v in same)
        raise
    yield from (observation(key, metadata, version) for key, metadata, version in same)


def _goes_on_behind(context: dg.AssetExecutionContext, key: dg.AssetKey) -> bool:
    """Whether the run has a check of the asset, or an asset behind it."""
    graph = context.job_def.asset_layer.asset_graph
    node = graph.get(key)
    return bool(node.check_keys or node.child_keys & set(graph.executable_asset_keys))
