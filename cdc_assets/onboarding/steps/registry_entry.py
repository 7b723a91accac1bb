"""The registry file: the tables are declared in it, or were already."""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.onboarding.registry_file import add_tables, file_of, remove_tables
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import OnboardingWork, Step


def run(work: OnboardingWork) -> Facts:
    """Add what is missing; comments and order of the file stay."""
    file = file_of(settings.sources_folder(), work.declared.name)
    added = add_tables(file, [table.name for table in work.tables])
    before = work.state.done.get("registry", {}).get("added", [])
    return {"file": str(file), "added": sorted({*added, *before})}


def undo(work: OnboardingWork) -> Facts:
    """Take out what this onboarding has added, never what a person had declared."""
    file = file_of(settings.sources_folder(), work.declared.name)
    return {"removed": remove_tables(file, work.state.done.get("registry", {}).get("added", []))}


STEP = Step("registry", "the tables are declared in the source's registry file", run, undo)
