"""Jobs over all sources at once: a run has a fixed price, so what is asked for all sources is one run."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets.defs.side_by_side import side_by_side_executor
from cdc_assets.onboarding.route import ROUTES, job_name

TRANSPORT_JOB = "transport"
VOLUMETRY_JOB = "volumetry"
REPLAY_JOB, RESTORE_JOB = "replay", "restore"
MENDING_JOBS = (REPLAY_JOB, RESTORE_JOB, *map(job_name, ROUTES))
"""Those that a person launches, and behind which a table that failed may go on."""


def build_overall_jobs() -> list[UnresolvedAssetJobDefinition]:
    """`transport` brings connectors, topics and mirrors to what is declared; `volumetry` runs every check."""
    layers = ("connector", "topic", "mirror")
    transport = dg.AssetSelection.tag("layer", layers[0])
    for layer in layers[1:]:
        transport = transport | dg.AssetSelection.tag("layer", layer)
    return [
        dg.define_asset_job(
            TRANSPORT_JOB,
            selection=transport.without_checks(),
            executor_def=side_by_side_executor,
            description="Bring all connectors, topics and mirrors to what is declared, and wait until they carry.",
        ),
        dg.define_asset_job(
            VOLUMETRY_JOB, selection=dg.AssetSelection.all_asset_checks(), description="Compare the counts of all chains."
        ),
    ]
