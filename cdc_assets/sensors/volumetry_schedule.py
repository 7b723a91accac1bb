"""The volumetry checks on their declared rhythm: one job per source, one run for all its tables."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets import names
from cdc_assets.checks.flow import flow_key, has_flow_check
from cdc_assets.checks.mirror import build_mirror_checks
from cdc_assets.checks.preflight import preflight_key
from cdc_assets.checks.quarantine import build_quarantine_checks
from cdc_assets.checks.volumetry import build_volumetry_checks
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.sensors.rhythm import rhythmic


def job_name(source: BaseSource) -> str:
    """The job that runs all volumetry checks of a source."""
    return f"volumetry_{source.name}"


def build_volumetry_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    keys = {*build_volumetry_checks(source).check_keys, *build_quarantine_checks(source).check_keys}
    if has_flow_check(source):
        keys.add(flow_key(source))
    if isinstance(source, CapturedSource):
        keys.add(preflight_key(source))
    if names.is_mirrored(source):
        keys |= set(build_mirror_checks(source).check_keys)
    return dg.define_asset_job(
        job_name(source),
        selection=dg.AssetSelection.checks(*sorted(keys, key=str)),
        description="Compare the counts of the chain.",
    )


def build_volumetry_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """At the shortest rhythm that a table of the source declares, in whole minutes."""
    shortest = min((table.volumetry or source.volumetry).every for table in source.tables)
    return rhythmic(job, source, shortest)
