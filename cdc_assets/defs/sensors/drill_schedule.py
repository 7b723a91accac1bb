"""A source's drill on its declared rhythm: one run, then the check of what it has found."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.models import BaseSource


def build_drill_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The drill asset with its check."""
    return dg.define_asset_job(
        f"drill_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.DRILL, source)),
        description="Restore the newest backup beside the lake, and compare it with silver.",
    )


def build_drill_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `drill.every` says."""
    if source.drill is None:
        raise ValueError(f"source {source.name} declares no drill")
    return rhythmic(job, source, source.drill.every)
