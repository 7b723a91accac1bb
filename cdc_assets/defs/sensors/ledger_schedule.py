"""The ledger on its declared rhythm: one run per source counts its tables and judges the count."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names, settings
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.ledger.count import behind
from cdc_assets.ledger.read import places
from cdc_assets.registry.models import BaseSource


def build_ledger_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The ledger assets of a source with their checks."""
    keys = [asset_key("ledger", source, table) for table in source.tables]
    return dg.define_asset_job(
        f"ledger_{source.name}",
        selection=dg.AssetSelection.assets(*keys),
        description="Count every event by window, in every link, with its fate.",
    )


def build_ledger_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The processing-time trigger: every run emits a pane of each window that has changed."""

    def nothing_new(_: dg.DagsterInstance) -> str | None:
        found = places(settings.lake(), source)
        if any(behind(settings.lake(), source, table, found.get(names.table_name(table))) for table in source.tables):
            return None
        return "silver has folded nothing since the last count"

    return rhythmic(job, source, source.ledger.every, why_skip=nothing_new)
