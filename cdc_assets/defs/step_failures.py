"""Why a run's steps failed, as the instance has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg
    from dagster._utils.error import SerializableErrorInfo


def step_failures(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str, str]]:
    """By step, in the order in which they failed: what was raised first. None: the run ended before any of its steps did."""
    import dagster as dg

    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return [(str(each.step_key), root_message(each.get_dagster_event().step_failure_data.error)) for each in events]


def root_message(error: SerializableErrorInfo | None) -> str:
    """What was raised first, in its own words."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error else "no reason given"
