"""What the whole stack takes while nothing changes: shares of a core, and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.bench.carry import Took
from benchmarks.bench.figures import Figure
from benchmarks.bench.idle_cost import cpu_between, cpu_by_process, memory_gb
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.stack_dagster import await_rest, open_instance

# A run by a schedule is of half a minute, and one comes within five: of shorter windows two met one, and their median was theirs.
_SECONDS, _TRIAL_SECONDS, _WINDOWS = 60.0, 20.0, 4


def rest(bench: Measurement) -> Iterator[Figure]:
    """Of a stack that has the two examples alone."""
    yield from at_rest(bench, "at rest", cores=0.15, memory=3.0)


def at_rest(bench: Measurement, name: str, *, cores: float, memory: float | None = None) -> Iterator[Figure]:
    """Cores and memory, with what is to be reached. It begins when no run is under way; the first window does not count.

    A schedule may start a run meanwhile: that is of one window, and the median is another.

    Raises:
        BenchError: some run does not end.
    """
    with open_instance(bench.stack.home) as instance:
        await_rest(instance)
    seconds = _TRIAL_SECONDS if bench.asked.is_trial or not bench.asked.long else _SECONDS
    used, held = watch(bench.stack.supervisor, seconds=seconds, windows=_WINDOWS, say=bench.say)
    yield Figure(f"{name}: cores", used[1:], used[:1], target=bench.asked.target(cores), unit="cores")
    wanted = None if memory is None else bench.asked.target(memory)
    yield Figure(f"{name}: memory", held[1:], held[:1], target=wanted, unit="GB")


def watch(supervisor: int, *, seconds: float, windows: int, say: Callable[[str], None]) -> tuple[list[Took], list[Took]]:
    """By window: shares of a core with the CPU seconds behind them, and gigabytes."""
    cores, memory = [], []
    for number in range(windows):
        say(f"at rest: window {number + 1} of {windows}, {seconds:.0f} s each")
        began, before = time.monotonic(), cpu_by_process(supervisor)
        time.sleep(seconds)
        used = cpu_between(before, cpu_by_process(supervisor))
        cores.append(Took(used / (time.monotonic() - began), used))
        memory.append(Took(memory_gb(supervisor), used))
    return cores, memory
