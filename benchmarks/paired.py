"""What a piece of work takes: seconds, and seconds of processor time of this process and of all that it has started.

Neighbours make work last longer, but hardly dearer: where they cannot be kept away, processor time is what can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import geometric_mean, median
from typing import NamedTuple

import psutil


class Took(NamedTuple):
    """Both in seconds."""

    wall: float
    cpu: float


def took(work: Callable[[], object]) -> Took:
    """Does it."""
    began, cpu = time.perf_counter(), _cpu()
    work()
    return Took(time.perf_counter() - began, _cpu() - cpu)


def ratios(some: list[Took], others: list[Took]) -> dict[str, float]:
    """Of the medians, and pair by pair where the two take turns in who comes first.

    Whoever comes first pays for what the second finds read already (1 s of 4). So the pairs of each order have their median, and
    the answer is the geometric mean of both.
    """
    answer = {}
    for name in Took._fields:
        pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(some, others, strict=True)]
        answer[name] = round(median(a for a, _ in pairs) / median(b for _, b in pairs), 2)
        orders = [pairs[i::2] for i in (0, 1) if pairs[i:]]
        answer[f"{name}_paired"] = round(geometric_mean(median(a / b for a, b in order) for order in orders), 2)
    return answer


def _cpu() -> float:
    here = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (here, *here.children(recursive=True)))
