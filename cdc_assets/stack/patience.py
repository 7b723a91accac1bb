"""How long a live process may go on without an answer: slow, or hung?

Not by the clock alone. Time in which it asks for CPU hardly counts, and not at all on a busy machine; time in which it does
nothing counts whole, on a busy machine a quarter of it; time in which a component that it needs is away does not count.
"""

from __future__ import annotations

import time

from cdc_assets.stack.machine import Demand, demand_between, demand_of, is_busy

# Of one CPU: what timers and garbage collection of an idle JVM ask for is below it.
_AT_WORK = 0.1
_WORKS_ON_IDLE_MACHINE = 0.1
_RESTS_ON_BUSY_MACHINE = 0.25
_RESTS_ON_IDLE_MACHINE = 1.0
# Between two looks at a process: a JVM has 200 threads.
_LOOK_EVERY = 0.5
# Of one look's time: the supervisor itself may have been stopped, or the machine asleep.
_LONGEST_LOOK = 120.0


class Patience:
    """One wait for an answer. `limit` is in seconds of a process that does nothing, on a machine that is not busy."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.seen = ""
        self._at = time.monotonic()
        self._demand: Demand | None = None

    def look(self, pid: int, *, excused: bool = False) -> None:
        """Count the time since the last look; excused where it waits for somebody else."""
        seconds = time.monotonic() - self._at
        if self._demand is not None and seconds < _LOOK_EVERY:
            return
        demand = demand_of(pid)
        asked = demand_between(self._demand, demand) if self._demand is not None else 0.0
        # The first look has nothing to compare with: what it did until then is not known.
        weight, self.seen = (0.0, "") if self._demand is None else judge(asked / seconds, busy=is_busy(), excused=excused)
        self.spent += weight * min(seconds, _LONGEST_LOOK)
        self._at, self._demand = time.monotonic(), demand


def judge(share: float, *, busy: bool, excused: bool) -> tuple[float, str]:
    """What a second without an answer weighs, and why; `share` of one CPU it ran, or wanted to."""
    if excused:
        return 0.0, "waits for what it needs"
    machine = "the machine is busy" if busy else "the machine is not busy"
    if share >= _AT_WORK:
        return (0.0 if busy else _WORKS_ON_IDLE_MACHINE), f"slow, but at work: {machine}"
    return (_RESTS_ON_BUSY_MACHINE if busy else _RESTS_ON_IDLE_MACHINE), f"does nothing, and {machine}"
