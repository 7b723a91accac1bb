"""The code location: every source of the registry, composed; no logic here."""

from __future__ import annotations

import dagster as dg

from cdc_assets import settings
from cdc_assets.assets.chain import build_source_defs
from cdc_assets.assets.jobs import build_overall_jobs
from cdc_assets.onboarding.jobs import build_onboarding_jobs
from cdc_assets.registry.loader import load_sources
from cdc_assets.resources.platform import Platform

SOURCES = load_sources(settings.sources_folder())

defs = dg.Definitions.merge(
    *(build_source_defs(source) for source in SOURCES),
    dg.Definitions(
        jobs=[*build_overall_jobs(), *build_onboarding_jobs()],
        resources={"platform": Platform()},
        executor=dg.in_process_executor,
    ),
)
