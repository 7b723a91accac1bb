"""Keys of assets and of their checks, as Dagster takes them."""

from __future__ import annotations

import dagster as dg

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource


def asset_key(layer: str, source: BaseSource, table: Table | None = None) -> dg.AssetKey:
    """One link of a table's chain, or the source's connector."""
    return dg.AssetKey(names.asset_key(layer, source, table))


def key_of_check(name: str, layer: str, source: BaseSource, table: Table | None = None) -> dg.AssetCheckKey:
    """The check of that name on such an asset."""
    return dg.AssetCheckKey(asset_key(layer, source, table), name)
