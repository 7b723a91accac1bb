"""Windowed results on their declared rhythm: one run per source refines them, and proves them."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import settings
from cdc_assets.defs.checks.windowed_source import windows_to_ask
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.models import BaseSource
from cdc_assets.windowed.refine_windows import is_behind, windows_of


def build_windows_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The windows of a source with their checks, but for the one that costs the source a pass over its table."""
    whole = dg.AssetSelection.assets(*[dg.AssetKey(windows.key) for windows in windows_of(source)])
    asked = windows_to_ask(source)
    return dg.define_asset_job(
        f"windows_{source.name}",
        selection=whole - dg.AssetSelection.checks(*asked) if asked else whole,
        description="Bring windowed results up to silver, and prove them.",
    )


def build_windows_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The trigger in processing time, at the shortest that is declared."""

    def nothing_new(_: dg.DagsterInstance) -> str | None:
        if any(is_behind(settings.lake(), windows) for windows in windows_of(source)):
            return None
        return "silver has folded nothing since the windows were refined"

    return rhythmic(job, source, min(windows.declared.trigger for windows in windows_of(source)), why_skip=nothing_new)


def build_windows_source_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"sums_{source.name}",
        selection=dg.AssetSelection.checks(*windows_to_ask(source)),
        description="Compare windowed results with SQL over the source.",
    )


def build_windows_source_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as an idle source is counted (`volumetry.idle_every`)."""
    return rhythmic(job, source, source.volumetry.idle_every)
