"""One layer's assets of a source: one subsettable step for all of its tables."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.assets.specs import table_spec
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

TableMetadata = Iterator[tuple[Table, Mapping[str, Any]]]
"""Each table that was materialized, and what Dagster shows of it."""
Work = Callable[[dg.AssetExecutionContext, Platform, list[Table]], TableMetadata]


def table_step(
    layer: str, source: BaseSource, *, work: str | None = None, tags: Mapping[str, str] | None = None
) -> Callable[[Work], dg.AssetsDefinition]:
    """Make a function the layer's step; it is given the tables that the run has selected. `work` names the step, `tags` are the
    op's."""

    def make(materialize: Work) -> dg.AssetsDefinition:
        specs = [table_spec(layer, source, table) for table in source.tables]

        @dg.multi_asset(specs=specs, name=names.op_name(work or layer, source), can_subset=True, op_tags=tags)
        def step(context: dg.AssetExecutionContext, platform: PlatformResource) -> Iterator[dg.MaterializeResult]:
            selected = [table for table in source.tables if asset_key(layer, source, table) in context.selected_asset_keys]
            for table, metadata in materialize(context, platform, selected):
                yield dg.MaterializeResult(asset_key=asset_key(layer, source, table), metadata=metadata)

        return step

    return make
