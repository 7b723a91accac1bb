"""Growing pauses after failures, each table's own: 1, 2, 4 … at most 60 s, and none after a success."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Place = tuple[str, str]
"""`(layer, table)`; the table is empty for the whole source."""
WHOLE_SOURCE: Place = ("source", "")
FOR_GOOD = 5
"""So many failures in a row, and it is no hiccup."""
_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class Failing:
    """A place that failed last: how often in a row, why, for how long (seconds) it rests, and until when of the clock."""

    times: int
    reason: str
    pause: float
    until: float

    @property
    def is_lasting(self) -> bool:
        """Whether it has failed often enough to be told as more than a hiccup."""
        return self.times >= FOR_GOOD


class Pauses:
    """What failed, and when it is tried again. One thread's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[Place, Failing] = {}

    @property
    def failing(self) -> Mapping[Place, Failing]:
        """What failed when it was tried last."""
        return dict(self._failing)

    def is_due(self, place: Place) -> bool:
        """Whether it may be tried: it never failed, or has rested."""
        known = self._failing.get(place)
        return known is None or self._clock() >= known.until

    def note_failure(self, place: Place, reason: str) -> Failing:
        """The pause that begins now."""
        times = self._failing[place].times + 1 if place in self._failing else 1
        # The exponent is bounded: 2 ** 1100 is no float.
        pause = min(_FIRST_SECONDS * 2 ** min(times - 1, 10), _LONGEST_SECONDS)
        found = self._failing[place] = Failing(times, reason, pause, self._clock() + pause)
        return found

    def note_success(self, place: Place) -> bool:
        """True: it had failed before."""
        return self._failing.pop(place, None) is not None
