"""Runs jobs in this process, recorded in the instance as any other run, and reads the checks' evidence from them.

Not through the webserver: a run launched there starts a process that loads the code anew, 4 to 20 s while Spark and the
daemon start on the same two cores, and the jobs here are short (ADR 0012).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cdc_assets import settings
from cdc_assets.defs.step_failures import root_message
from cdc_assets.errors import CdcAssetsError
from cdc_assets.shown_text import prose_of_markdown

if TYPE_CHECKING:
    import dagster as dg


class RunFailedError(CdcAssetsError):
    """A Dagster run did not succeed; `reasons` by step."""

    def __init__(self, message: str, reasons: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.reasons = dict(reasons)


@dataclass(frozen=True)
class CheckOutcome:
    """The latest evaluation of a check."""

    passed: bool
    description: str
    metadata: dict[str, Any]
    warns: bool = False
    """When it does not pass, that is a warning."""


CheckPlace = tuple[tuple[str, ...], str]
"""`(asset key, check name)`."""
Outcomes = dict[CheckPlace, CheckOutcome]


def run_job(job: str, *, console: Console, must_succeed: bool = True, checks: Set[CheckPlace] = frozenset()) -> Outcomes:
    """Run a job of the code location; what every check said that it evaluated.

    Args:
        job: its name.
        console: where progress goes while Dagster has standard output.
        must_succeed: whether a failed run is an error.
        checks: which checks of the job alone; empty: all.

    Raises:
        RunFailedError: when it did not succeed (unless told otherwise): each failed step's reason, and the run's page.
    """
    import dagster as dg

    from cdc_assets.definitions import defs
    from cdc_assets.defs.side_by_side import execute_here

    with dg.DagsterInstance.get() as instance, _keep_console(console):
        keys = {dg.AssetCheckKey(dg.AssetKey(asset), name) for asset, name in checks}
        asked = defs.resolve_job_def(job).get_subset(asset_check_selection=keys)
        result = execute_here(asked, instance)
    if must_succeed and not result.success:
        page = f"{settings.address('CDC_DAGSTER_URL')}/runs/{result.run_id}"
        reasons = _reasons(result)
        told = "; ".join(f"{step}: {reason}" for step, reason in reasons.items()) or "no step says why"
        raise RunFailedError(f"job {job} failed: {told}; see {page}", reasons)
    return {
        (tuple(found.asset_key.path), found.check_name): CheckOutcome(
            found.passed,
            prose_of_markdown(found.description or ""),
            {key: value.value for key, value in found.metadata.items()},
            found.severity == dg.AssetCheckSeverity.WARN,
        )
        for found in result.get_asset_check_evaluations()
    }


def all_checks() -> list[CheckPlace]:
    """Every check of the code location."""
    from cdc_assets.definitions import defs

    return [(tuple(key.asset_key.path), key.name) for key in defs.resolve_asset_graph().asset_check_keys]


def _reasons(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    failures = result.filter_events(lambda event: event.is_step_failure)
    return {str(event.step_key): root_message(event.step_failure_data.error) for event in failures}


@contextmanager
def _keep_console(console: Console) -> Iterator[None]:
    """Dagster takes standard output and error for the run's logs; progress still goes where it went."""
    before = console.file
    with os.fdopen(os.dup(before.fileno()), "w", encoding="utf-8") as own:
        console.file = own
        try:
            yield
        finally:
            console.file = before
