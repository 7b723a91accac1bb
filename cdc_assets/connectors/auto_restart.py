"""When a failed connector is restarted by itself: after n² + n minutes the n-th time again, seven times, then a person is asked.

The rhythm is Strimzi's (KafkaConnector.spec.autoRestart): at once, then after 2, 6, 12, 20, 30, 42 minutes. Most failures
are a database or broker that was away for a while; what seven restarts in about two hours do not mend, an eighth does not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

MAX_RESTARTS = 7
Action = Literal["none", "restart", "wait", "give up", "given up", "recovered"]


@dataclass(frozen=True)
class RestartState:
    """How often a connector has been restarted since it last ran well, and when (seconds since the epoch)."""

    restarts: int = 0
    last: float = 0.0
    given_up: bool = False

    @property
    def due(self) -> float:
        """When the next restart may be."""
        return self.last + backoff_seconds(self.restarts)

    def to_json(self) -> dict[str, Any]:
        """For the sensor's cursor."""
        return asdict(self)


def backoff_seconds(restarts: int) -> float:
    """How long to wait after so many restarts."""
    return (restarts**2 + restarts) * 60.0


def decide(state: RestartState, *, failed: bool, running: bool, now: float) -> tuple[Action, RestartState]:
    """What to do now, and what to remember.

    A connector counts as well again once it has run for as long as the next wait would be: one that fails two minutes
    after each restart must not be restarted for ever.
    """
    if not failed:
        if running and state.restarts and now >= state.due:
            return "recovered", RestartState()
        return "none", state
    if state.given_up:
        return "given up", state
    if now < state.due:
        return "wait", state
    if state.restarts >= MAX_RESTARTS:
        return "give up", RestartState(state.restarts, state.last, given_up=True)
    return "restart", RestartState(state.restarts + 1, now)
