"""Cuts on their declared rhythm: one run per source makes one, then the check of what is kept."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.source_settings import Cuts


def build_cut_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The cut asset with its check."""
    return dg.define_asset_job(
        f"cut_{source.name}",
        selection=dg.AssetSelection.assets(asset_key(names.CUT, source)),
        description="Make a consistent cut of all tables, and keep it.",
    )


def build_cut_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `cuts.every` says."""
    return rhythmic(job, source, (source.cuts or Cuts()).every)
