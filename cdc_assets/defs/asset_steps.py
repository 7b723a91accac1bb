"""One subsettable step for all tables of a source: of a layer's assets, or of one check.

A table that fails does not stop the others of its step. A check that fails by an error is told as that error.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import VersionOf, asset_key, observation, table_spec, version_in
from cdc_assets.defs.instance_runs import last_materializations
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

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
            done = (
                (asset_key(layer, source, table), table, before) for table, before in materialize(context, platform, selected)
            )
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
    before = version_in(last.get(key))
    return version_of(lake, table, metadata, before), before


def _tell_changes(
    context: dg.AssetExecutionContext, done: Iterator[tuple[dg.AssetKey, Mapping[str, Any], str | None, str | None]]
) -> Iterator[dg.MaterializeResult | dg.AssetObservation]:
    """What has changed as it comes, and at the end what has not.

    Dagster starts nothing behind an asset that a step has not materialized, and shows each asset as failed that a failed step
    has not. So what has not changed is materialized where the run goes on behind it, and where the step fails.
    """
    same: list[tuple[dg.AssetKey, Mapping[str, Any], str]] = []
    try:
        for key, metadata, version, before in done:
            if version is not None and version == before and not _goes_on_behind(context, key):
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


Checks = Mapping[dg.AssetCheckKey, Table]
Judge = Callable[[dg.AssetCheckExecutionContext, Platform, Checks], Iterator[dg.AssetCheckResult]]


def table_checks(
    work: str, source: BaseSource, checks: Checks, description: str, *, blocking: Callable[[Table], bool] = lambda _: True
) -> Callable[[Judge], dg.AssetChecksDefinition]:
    """Make a function the step of these checks; it is given those that the run has selected. `work` names the step."""
    specs = [
        dg.AssetCheckSpec(key.name, asset=key.asset_key, description=description, blocking=blocking(table))
        for key, table in checks.items()
    ]

    def make(judge: Judge) -> dg.AssetChecksDefinition:
        @dg.multi_asset_check(name=names.op_name(work, source), specs=specs, can_subset=True)
        def step(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
            keys = context.selected_asset_check_keys
            yield from judge(context, platform, {key: table for key, table in checks.items() if key in keys})

        return step

    return make
