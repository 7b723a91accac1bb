"""Maintenance on its declared rhythm: one run per source, then the check of what it has left."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.models import BaseSource


def build_maintenance_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The maintenance asset with its check."""
    return dg.define_asset_job(
        f"maintain_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.MAINTENANCE, source)),
        description="Make small files one, take gone rows out, remove old commits and files.",
    )


def build_maintenance_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `maintenance.every` says."""
    return rhythmic(job, source, source.maintenance.every)
