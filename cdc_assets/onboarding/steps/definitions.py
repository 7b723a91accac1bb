"""Dagster learns of the registry's change: bronze, silver and the sensor know the tables once the code location is reloaded."""

from __future__ import annotations

import httpx

from cdc_assets import settings
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import Step, Work

LOCATION = "cdc_assets"
_RELOAD = "mutation($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"


def run(work: Work) -> Facts:
    """Ask the webserver, where one is known. The daemon looks by itself once a minute, so a refusal stops nothing."""
    url = settings.lookup("CDC_DAGSTER_URL")
    if url is None:
        return {"reloaded": False, "why": "CDC_DAGSTER_URL is not set: reload the code location in Dagster"}
    body = {"query": _RELOAD, "variables": {"name": LOCATION}}
    try:
        answer = httpx.post(f"{url.rstrip('/')}/graphql", json=body, timeout=60.0, trust_env=False)
        kind = answer.raise_for_status().json()["data"]["reloadRepositoryLocation"]["__typename"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        work.say(f"Dagster at {url} did not reload {LOCATION} ({type(error).__name__}): reload it in the UI")
        return {"reloaded": False, "why": f"{url}: {type(error).__name__}"}
    return {"reloaded": kind == "WorkspaceLocationEntry", "answer": kind}


STEP = Step("definitions", "Dagster reloads its definitions: bronze, silver and the sensor know the tables", run)
