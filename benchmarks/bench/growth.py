"""How a cycle's time, and the memory of the stack and of this command, change over two thousand cycles of one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.bench.carry import Took
from benchmarks.bench.figures import Figure
from benchmarks.bench.idle_cost import memory_gb
from benchmarks.bench.measurement import Measurement
from spark.errors import quantity

_ROWS, _CHANGES = 10_000, 100
_CYCLES, _TRIAL = 2_000, 30
_PARTS = 20
"""The first and the last twentieth are compared: a hundred cycles of two thousand."""
_TARGET = 1.2
_UNIT = "x of the first hundred"


def growth(bench: Measurement) -> Iterator[Figure]:
    """A hundred changes each time, as a table gets them that changes all day; the first cycles of all do not count."""
    cycles = _TRIAL if bench.asked.is_trial else _CYCLES
    part = max(cycles // _PARTS, 2)
    loaded = bench.make("_growth", [bench.feed(_ROWS)], peers=False)
    bench.carry(loaded.source)
    took: list[Took] = []
    memory: list[tuple[float, float]] = []
    for number in range(cycles + part):
        if number % part == 0:
            bench.say(f"growth: cycle {number:,} of {cycles + part:,} in all")
            memory.append((memory_gb(bench.stack.supervisor), _own_memory()))
        for feed in loaded.feeds:
            feed.update(_CHANGES)
        bronze, silver = bench.carry(loaded.source)
        took.append(bronze + silver)
    memory.append((memory_gb(bench.stack.supervisor), _own_memory()))
    bench.check(loaded)
    # Java compiles during the first part, which is warm-up; the hundred behind it is what the last is compared with.
    after = quantity(cycles, "cycle", form=",")
    yield _ratio(f"cycle after {after}", took[part : 2 * part], took[-part:], bench)
    for place, whose in enumerate(("the stack", "this command")):
        name = f"memory of {whose} after {after}"
        yield Figure(name, [Took(memory[-1][place] / memory[2][place], 0.0)], (), bench.asked.target(_TARGET), unit=_UNIT)


def _ratio(name: str, first: Sequence[Took], last: Sequence[Took], bench: Measurement) -> Figure:
    begun = median(took.wall for took in first)
    ratios = [Took(took.wall / begun, took.cpu) for took in last]
    return Figure(name, ratios, [Took(begun, 0.0)], bench.asked.target(_TARGET), unit=_UNIT)


def _own_memory() -> float:
    import psutil

    return float(psutil.Process(os.getpid()).memory_full_info().pss) / 1e9
