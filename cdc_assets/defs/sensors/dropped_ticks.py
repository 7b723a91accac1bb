"""Which ticks of a counting schedule are not worth a run: the next one is near, and the backlog goes first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psutil

# After a pause the ticks of all that time would run at once, beside the backlog.
_LATE = timedelta(minutes=1)
# A count takes 25 s of CPU on a Spark that has just started: a quarter of a start from kept data (ADR 0012).
_STARTING = timedelta(minutes=2)
_SOON_MINUTES = 30


def why_dropped(due: datetime, *, minutes: int, now: datetime | None = None, started: datetime | None = None) -> str | None:
    """Why the tick that was due at `due` is not run; None when it is.

    Args:
        due: aware.
        minutes: lie between two ticks.
        now: the present, by default.
        started: when this code location began, by default.
    """
    now = now or datetime.now(timezone.utc)
    started = started or datetime.fromtimestamp(psutil.Process().create_time(), timezone.utc)
    if minutes > _SOON_MINUTES:
        return None
    next_one = f"the next comes within {minutes} min"
    if now - due > _LATE:
        return f"was due {(now - due).total_seconds():.0f} s ago, while the daemon did not run; {next_one}"
    if now - started < _STARTING:
        return (
            f"Dagster loaded its definitions {(now - started).total_seconds():.0f} s ago, and the backlog goes first; {next_one}"
        )
    return None
