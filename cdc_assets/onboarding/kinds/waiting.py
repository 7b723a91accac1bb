"""Waits for the end of transactions that others have begun, and says whose they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork

_DEADLINE_SECONDS = 3600.0
_TOLD_EVERY_SECONDS = 15.0


def await_ended(work: OnboardingWork, still_open: Callable[[], dict[str, str]]) -> Facts:
    """Wait until the transactions that are open now have ended; later ones are not waited for.

    Raises:
        OnboardingError: naming those that are open after an hour.
    """
    began = told = time.monotonic()
    first = left = still_open()
    while left:
        now = time.monotonic()
        if now - began > _DEADLINE_SECONDS:
            raise OnboardingError(
                f"{work.database.place}: open since before the tables were captured: {'; '.join(left.values())}; end these "
                f"transactions, then {work.resume}"
            )
        if now - told > _TOLD_EVERY_SECONDS:
            work.say(f"waiting for {'; '.join(left.values())}")
            told = now
        time.sleep(0.2)
        current = still_open()
        left = {key: who for key, who in left.items() if key in current}
    return {"waited_for": len(first), "seconds": round(time.monotonic() - began, 3)}
