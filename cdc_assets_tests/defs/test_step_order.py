"""What waits for what in a run of the sensor."""

from __future__ import annotations

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.lake_assets import build_bronze_assets, build_silver_assets
from cdc_assets.defs.upkeep_assets import build_backup_assets
from cdc_assets.registry.source_declaration import Source


def test_silver_begins_before_the_backup(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    """A change is in silver as soon as it can be; its copy may come later. Steps fail here, for want of a lake."""
    backup = build_backup_assets(source)
    assets = [backup, build_bronze_assets(source), build_silver_assets(source)]
    chosen = [key for each in assets for key in each.keys if key.path[0] != "bronze"]
    run = dg.materialize(assets, selection=chosen, instance=instance, resources={"platform": platform}, raise_on_error=False)
    begun = [event.step_key for event in run.all_events if event.event_type == dg.DagsterEventType.STEP_START]
    assert begun == ["cdc_silver_shop", "cdc_backup_shop"]
