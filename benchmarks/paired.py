"""What a piece of work takes: seconds, and seconds of processor time of the Java servers that this process started.

Neighbours make work last longer, but hardly dearer: where they cannot be kept away, processor time is what can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
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
    """Of the medians, and the median of the ratios pair by pair (what came right after the other)."""
    answer = {}
    for name in Took._fields:
        pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(some, others, strict=True)]
        answer[name] = round(median(a for a, _ in pairs) / median(b for _, b in pairs), 2)
        answer[f"{name}_paired"] = round(median(a / b for a, b in pairs), 2)
    return answer


def _cpu() -> float:
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True))
