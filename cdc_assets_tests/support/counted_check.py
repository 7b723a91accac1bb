"""One count of a table by Dagster, as its schedule asks for it."""

from __future__ import annotations

import dagster as dg

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.check_specs import RECONCILED
from cdc_assets.defs.volumetry_checks import silver_check
from cdc_assets.registry.source_declaration import Source


def check(source: Source, platform: Platform, instance: dg.DagsterInstance) -> tuple[bool, dg.AssetCheckEvaluation]:
    """One run of the check of one table, by Dagster; whether it went through, and what it said."""
    key = RECONCILED.key(source, source.tables[0])
    job = dg.define_asset_job("counted", selection=dg.AssetSelection.checks(key))
    checks = silver_check.build(source)
    defs = dg.Definitions(asset_checks=checks, jobs=[job], resources={"platform": platform}, executor=dg.in_process_executor)
    run = defs.resolve_job_def("counted").execute_in_process(instance=instance, raise_on_error=False)
    (found,) = run.get_asset_check_evaluations()
    return run.success, found
