"""Tables leave a running connector: it no longer captures them. Their topics, bronze, silver and backup stay as they are."""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.connectors.kept_settings import is_listed
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.registry_file import file_of, remove_tables
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.steps.capture import without_tables
from cdc_assets.onboarding.steps.transport import without_mirror
from cdc_assets.onboarding.work import OnboardingWork, Step


def check_tables(work: OnboardingWork) -> Facts:
    """The tables are the source's, and not all of them."""
    declared = {table.name for table in work.declared.tables}
    unknown = [name for name in work.state.tables if name not in declared]
    if unknown:
        raise OnboardingError(f"{work.declared.name} has no table {', '.join(unknown)}; it has: {', '.join(sorted(declared))}")
    if not work.before.tables:
        raise OnboardingError(
            f"{', '.join(sorted(declared))} are all tables of {work.declared.name}: delete its connector instead"
        )
    listed = work.declared.capture.settings.get("table.include.list") or ""
    if still := [".".join(table.id) for table in work.tables if is_listed(".".join(table.id), filter(None, listed.split(",")))]:
        raise OnboardingError(
            f"capture.settings of {work.declared.name} has table.include.list: {listed}, which takes {', '.join(still)} still: "
            f"take it out of the list in the registry, then cdc offboard {work.declared.name} --resume"
        )
    return {"left": sorted(declared - set(work.state.tables))}


def registry(work: OnboardingWork) -> Facts:
    """They are no longer declared."""
    file = file_of(settings.sources_folder(), work.declared.name)
    return {"file": str(file), "removed": remove_tables(file, work.state.tables)}


KNOWN = Step("known", "the tables are declared, and others stay", check_tables)
CONNECTOR = Step("connector", "the connector and its publication are without them (stopped for a moment)", without_tables)
MIRROR = Step("mirror", "the mirror connector no longer carries their topics", without_mirror)
REGISTRY = Step("registry", "the tables are taken out of the source's registry file", registry)
