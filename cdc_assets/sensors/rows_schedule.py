"""The comparison of rows in two steps on its declared rhythm: one run for all tables of the source."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.checks.rows import rows_keys
from cdc_assets.registry.models import BaseSource
from cdc_assets.sensors.dropped_ticks import why_dropped
from cdc_assets.sensors.recent_runs import last_materialized
from cdc_assets.sensors.volumetry_schedule import cron, whole_minutes


def build_rows_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"reconcile_{source.name}",
        selection=dg.AssetSelection.checks(*rows_keys(source)),
        description="Compare every row of silver with the source's, in two steps.",
    )


def build_rows_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `reconciliation.every` says."""
    every = source.reconciliation.every
    assert every is not None

    @dg.schedule(
        name=f"reconcile_{source.name}_schedule",
        job=job,
        cron_schedule=cron(every),
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def rows(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        silver = (dg.AssetKey(names.asset_key("silver", source, table)) for table in source.tables)
        if not any(last_materialized(context.instance, key) for key in silver):
            return dg.SkipReason(f"nothing of {source.name} is in silver yet")
        if missed := why_dropped(context.scheduled_execution_time, minutes=whole_minutes(every)):
            return dg.SkipReason(missed)
        return dg.RunRequest()

    return rows
