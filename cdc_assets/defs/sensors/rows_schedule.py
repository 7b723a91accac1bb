"""The comparison of rows in two steps on its rhythm: one run for all tables of the source."""

from zlib import crc32

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets.defs.checks.reconciled_two_step import rows_keys
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.models import BaseSource


def build_rows_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        f"reconcile_{source.name}",
        selection=dg.AssetSelection.checks(*rows_keys(source)),
        description="Compare every row of silver with the source's, in two steps.",
    )


def build_rows_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """As often as `reconciliation.every` says, else once a day; sources do not begin in the same minute."""
    assert source.rows_every is not None
    return rhythmic(job, source, source.rows_every, minute=crc32(source.name.encode()) % 1440)
