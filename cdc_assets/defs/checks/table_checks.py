"""One check of each table of a source: one subsettable step for all of them."""

from collections.abc import Callable, Iterator, Mapping

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

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
            wanted = context.selected_asset_check_keys
            yield from judge(context, platform, {key: table for key, table in checks.items() if key in wanted})

        return step

    return make
