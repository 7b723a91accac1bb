"""A lake that holds everything that the fake topics hold."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver

ORDERS, LINES = "core.shop.public.orders", "core.shop.public.lines"


def catch_up(platform: Platform, instance: dg.DagsterInstance) -> None:
    """Bronze, silver and backup hold everything that the fake topics hold."""
    lake = Path(platform.lake)
    append_bronze(lake / "bronze/shop", ORDERS, "orders", "id-orders", 0, 3, version=0)
    append_bronze(lake / "bronze/shop", LINES, "lines", "id-lines", 0, 5, version=1)
    write_silver(lake / "silver/shop/orders", ORDERS, "orders", "id-orders", 3)
    write_silver(lake / "silver/shop/lines", LINES, "lines", "id-lines", 5)
    for layer in ("silver", "backup"):
        for table, records in (("orders", 3), ("lines", 5)):
            metadata = {"dagster/row_count": records, "cdc/epoch": 0, "cdc/epoch_records": records}
            instance.report_runless_asset_event(
                dg.AssetMaterialization(dg.AssetKey([layer, "shop", f"{layer}_{table}"]), metadata=metadata)
            )
