"""Launches jobs through the running webserver and waits for them; reads the checks' evidence from the instance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cdc_assets import settings
from cdc_assets.errors import CdcAssetsError

_POLL_SECONDS = 0.5
LOCATION = "cdc_assets"


class RunFailedError(CdcAssetsError):
    """A Dagster run did not succeed."""


@dataclass(frozen=True)
class CheckOutcome:
    """The latest evaluation of a check."""

    passed: bool
    description: str
    metadata: dict[str, Any]


def run_job(job: str, *, timeout: float, progress: Callable[[str], None], must_succeed: bool = True) -> str:
    """Launch a job, wait until it ends, and return its run id.

    Raises:
        RunFailedError: when it did not succeed (unless told otherwise), with its page in the UI.
    """
    from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError

    url = settings.address("CDC_DAGSTER_URL")
    place = urlsplit(url)
    client = DagsterGraphQLClient(place.hostname or "127.0.0.1", port_number=place.port, use_https=place.scheme == "https")
    try:
        run_id = client.submit_job_execution(job, repository_location_name=LOCATION)
        until = time.monotonic() + timeout
        while True:
            status = client.get_run_status(run_id).value
            progress(f"run {run_id[:8]} of job {job}: {status.lower()}")
            if status == "SUCCESS" or (status == "FAILURE" and not must_succeed):
                return run_id
            if status in {"FAILURE", "CANCELED"}:
                raise RunFailedError(f"job {job} ended as {status}; see {url}/runs/{run_id}")
            if time.monotonic() > until:
                raise RunFailedError(f"job {job} has not ended within {timeout:.0f} s; see {url}/runs/{run_id}")
            time.sleep(_POLL_SECONDS)
    except DagsterGraphQLClientError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise RunFailedError(f"job {job} could not be run at {url}: {reason}; ./cdc status") from error


def check_outcomes(run_id: str) -> dict[tuple[tuple[str, ...], str], CheckOutcome]:
    """`{(asset key, check name): outcome}` of every check that the run evaluated."""
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    outcomes = {}
    for record in records:
        event = record.event_log_entry.dagster_event
        evaluation: Any = event.event_specific_data if event else None
        metadata = {key: value.value for key, value in evaluation.metadata.items()}
        key = (tuple(evaluation.asset_key.path), evaluation.check_name)
        outcomes[key] = CheckOutcome(evaluation.passed, evaluation.description or "", metadata)
    return outcomes
