"""The ledger on its declared rhythm: one run per source counts its tables and judges the count."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names, settings
from cdc_assets.ledger.count import behind
from cdc_assets.registry.models import BaseSource
from cdc_assets.sensors.dropped_ticks import why_dropped
from cdc_assets.sensors.recent_runs import last_materialized
from cdc_assets.sensors.volumetry_schedule import cron, whole_minutes


def build_ledger_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """The ledger assets of a source with their checks."""
    keys = [dg.AssetKey(names.asset_key("ledger", source, table)) for table in source.tables]
    return dg.define_asset_job(
        f"ledger_{source.name}",
        selection=dg.AssetSelection.assets(*keys),
        description="Count every event by window, in every link, with its fate.",
    )


def build_ledger_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """The processing-time trigger: every run emits a pane of each window that has changed."""

    @dg.schedule(
        name=f"ledger_{source.name}_schedule",
        job=job,
        cron_schedule=cron(source.ledger.every),
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def ledger(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        silver = [dg.AssetKey(names.asset_key("silver", source, table)) for table in source.tables]
        if not any(last_materialized(context.instance, key) for key in silver):
            return dg.SkipReason(f"nothing of {source.name} is in silver yet")
        if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(source.ledger.every)):
            return dg.SkipReason(missed)
        if not any(behind(settings.lake(), source, table) for table in source.tables):
            return dg.SkipReason("silver has folded nothing since the last count")
        return dg.RunRequest()

    return ledger
