"""The routes: which steps, in which order. All end in the same state."""

from __future__ import annotations

from cdc_assets.onboarding.state import Route
from cdc_assets.onboarding.steps import (
    await_git,
    capture,
    definitions,
    prerequisites,
    registry_entry,
    remove_tables,
    snapshot,
    temporary,
    transport,
    verify,
)
from cdc_assets.onboarding.work import Step

_FIRST = (prerequisites.STEP, registry_entry.STEP, transport.TOPICS, transport.MIRROR, capture.SIGNAL_TABLE)
_BY_SIGNAL = (*_FIRST, capture.CONNECTOR, capture.WRITERS)
ROUTES: dict[Route, tuple[Step, ...]] = {
    "incremental": (*_BY_SIGNAL, snapshot.by_signal("incremental"), verify.STEP, definitions.STEP),
    "blocking": (*_BY_SIGNAL, snapshot.by_signal("blocking"), verify.STEP, definitions.STEP),
    "temporary": (
        *(prerequisites.STEP, registry_entry.STEP, transport.TOPICS, transport.MIRROR),
        *(temporary.STOP, temporary.GO_ON, capture.WRITERS, temporary.SNAPSHOT, temporary.REMOVE, verify.STEP, definitions.STEP),
    ),
    "offboard": (remove_tables.KNOWN, remove_tables.CONNECTOR, remove_tables.MIRROR, remove_tables.REGISTRY, definitions.STEP),
}
_WATCHED = {step.name: (step,) for step in await_git.STEPS}
_TEMPORARY_WATCHED = {"snapshot": (await_git.SNAPSHOT,), "remove": await_git.REMOVE}


def steps_of(route: Route, *, watched: bool = False) -> list[Step]:
    """The steps of a route, in order; `watched`: what others apply from git is waited for."""
    if not watched:
        return [*ROUTES[route]]
    waited = _WATCHED | (_TEMPORARY_WATCHED if route == "temporary" else {})
    return [one for step in ROUTES[route] for one in waited.get(step.name, (step,))]


def job_name(route: Route) -> str:
    """Of the job that goes this route."""
    return route if route == "offboard" else f"onboard_{route}"
