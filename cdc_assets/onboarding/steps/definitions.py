"""Dagster learns of the registry's change and is looked at afterwards: assets, checks and the sensor are there, or gone."""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.onboarding.declared_source import find_source
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import OnboardingWork, Step


def run(work: OnboardingWork) -> Facts:
    """Ask the webserver, where one is known.

    Raises:
        DefinitionsError: Dagster does not have the definitions; `--resume` repeats this step alone.
    """
    url = settings.lookup("CDC_DAGSTER_URL")
    if url is None:
        why = "CDC_DAGSTER_URL is not set, so no Dagster was told: set it, then cdc reload"
        work.say(f"definitions: {why}")
        return {"verified": False, "why": why}
    if work.take_in is None:
        return {"verified": False, "why": "the tables were declared before: nothing is new to Dagster"}
    # As the file declares it now: an earlier step has edited it.
    return {"verified": True, **work.take_in(url, [find_source(work.declared.name)], work.say)}


STEP = Step("definitions", "Dagster has the definitions: the webserver is asked to reload, then what it has is compared", run)
