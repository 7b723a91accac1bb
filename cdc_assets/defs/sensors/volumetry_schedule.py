"""The volumetry checks on their declared rhythm: one job per source, one run for all its tables that are due."""

import time
from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets import names
from cdc_assets.defs.checks.cuts_kept import cuts_key
from cdc_assets.defs.checks.drilled import key_of_drilled
from cdc_assets.defs.checks.flow import flow_key, has_flow_check
from cdc_assets.defs.checks.history import history_key, tables_with_history
from cdc_assets.defs.checks.mirror import build_mirror_checks
from cdc_assets.defs.checks.preflight import preflight_key
from cdc_assets.defs.checks.quarantine_count import build_quarantine_checks
from cdc_assets.defs.checks.schema import schema_key
from cdc_assets.defs.checks.table_model import has_models, model_key
from cdc_assets.defs.checks.volumetry import build_volumetry_checks, check_key
from cdc_assets.defs.sensors.idle_counts import why_idle
from cdc_assets.defs.sensors.rhythm import rhythmic
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource

# Not one that its run never came to.
_ENDED = (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED)


def job_name(source: BaseSource) -> str:
    """The job that runs all volumetry checks of a source."""
    return f"volumetry_{source.name}"


def build_volumetry_job(source: BaseSource) -> UnresolvedAssetJobDefinition:
    """Runs the checks and nothing else."""
    return dg.define_asset_job(
        job_name(source),
        selection=dg.AssetSelection.checks(*_keys(source)),
        description="Compare the counts of the chain.",
    )


def _keys(source: BaseSource) -> list[dg.AssetCheckKey]:
    steps = [*build_volumetry_checks(source), build_quarantine_checks(source)]
    keys = {key for step in steps for key in step.check_keys}
    keys |= {history_key(source, table) for table in tables_with_history(source)}
    if has_models(source):
        keys |= {model_key(source, table) for table in source.tables}
    if has_flow_check(source):
        keys.add(flow_key(source))
    if source.cuts:  # told also where no run of cuts comes
        keys.add(cuts_key(source))
    if source.drill:  # likewise
        keys.add(key_of_drilled(source))
    if source.captured:
        keys.add(preflight_key(source.captured))
    if names.is_mirrored(source):
        keys |= set(build_mirror_checks(source).check_keys)
    return sorted(keys, key=str)


def build_volumetry_schedule(source: BaseSource, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """At the shortest rhythm that a table of the source declares, in whole minutes; a table with a longer one not each time.

    A source where nothing has happened is counted less often.
    """
    shortest = min(_every(source, table) for table in source.tables)

    def due(instance: dg.DagsterInstance) -> Sequence[dg.AssetCheckKey] | None:
        return checks_due(source, instance, shortest, now=time.time())

    def why_skip(instance: dg.DagsterInstance) -> str | None:
        keys = due(instance)
        return why_idle(source, instance, _keys(source) if keys is None else keys, shortest, now=time.time())

    return rhythmic(job, source, shortest, due=due, why_skip=why_skip)


def checks_due(
    source: BaseSource, instance: dg.DagsterInstance, shortest: timedelta, *, now: float
) -> Sequence[dg.AssetCheckKey] | None:
    """All checks but those of tables whose own rhythm is longer and which were counted within it; None: all.

    By when they were last counted, so that a tick that was left out is made up for by the next.
    """
    own = {check_key("bronze", source, t): t for t in source.tables if _every(source, t) > shortest}
    if not own:
        return None
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*own])
    resting = [
        table
        for key, table in own.items()
        # Half a tick early: the last run came a moment after its tick, and so would this one's be one tick late.
        if key in latest
        and latest[key].status in _ENDED
        and now - latest[key].create_timestamp < (_every(source, table) - shortest / 2).total_seconds()
    ]
    left = {check_key(layer, source, table) for layer in ("bronze", "silver", "backup") for table in resting}
    left |= {key(source, table) for table in resting for key in (schema_key, history_key)}
    return [key for key in _keys(source) if key not in left] if left else None


def _every(source: BaseSource, table: Table) -> timedelta:
    return (table.volumetry or source.volumetry).every
