"""Which of the tests that are not of the core a run plays: those that have waited longest, as many as its minutes hold."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets.errors import CdcAssetsError
from cdc_assets_tests.hostile.seeds import seed_of_files
from cdc_assets_tests.run.catalogue import Test

_UNKNOWN, _UNKNOWN_FAST = 10.0, 0.05
"""Seconds of a test that nobody has recorded: the means of those that start or ask a server, and of the others."""
_SHORTEST = 60.0
_UNITS = {"s": 1, "m": 60, "h": 3600}
_NEVER = ""


def duration(text: str) -> float:
    """`10m`, `90s` or `1h` in seconds.

    Raises:
        CdcAssetsError: it is none.
    """
    if not (match := re.fullmatch(r"(\d+)([smh])", text)):
        raise CdcAssetsError(f"{text!r} is no time: write minutes as 10m (or 90s, 1h)")
    return int(match[1]) * _UNITS[match[2]]


def seed_of(text: str | None) -> int:
    """The given seed; without one that of the committed files, which is another one after each commit.

    Raises:
        CdcAssetsError: it is no number.
    """
    if text is not None:
        if not text.isdecimal():
            raise CdcAssetsError(f"the seed {text!r} is no number: write --seed 437624, as the run has printed it")
        return int(text)
    return seed_of_files()


def budget_left(budget: float, within: float | None, passed: float) -> float:
    """The seconds of a rotation in a run that is to take no longer than `within`; 0 where less than a minute is left."""
    left = budget if within is None else min(budget, within - passed)
    return left if left >= _SHORTEST else 0.0


def estimates(tests: Iterable[Test], passed: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """What each test will take, in seconds by the clock: as long as when it passed last."""
    return {test.id: float(passed.get(test.id, {}).get("seconds", _UNKNOWN_FAST if test.is_fast else _UNKNOWN)) for test in tests}


def waited(tests: Iterable[Test], passed: Mapping[str, Mapping[str, Any]], seed: int) -> list[Test]:
    """The longest waiting first, by the day on which each passed last; those of one day in the seed's order.

    The seed shuffles files, and leaves a file's tests together: what a module starts is started once.
    """
    rows: Sequence[Test] = list(tests)
    files = sorted({test.file for test in rows})
    random.Random(seed).shuffle(files)
    place = {file: at for at, file in enumerate(files)}
    return sorted(rows, key=lambda test: (passed.get(test.id, {}).get("at", _NEVER)[:10], place[test.file]))


def chosen(waiting: Sequence[Test], seconds: Mapping[str, float], budget: float, at_a_time: int) -> list[Test]:
    """As many as `budget` seconds hold with so many side by side, at least one; what is too long for the rest is passed over.

    A test that alone is longer than the budget is chosen when it is the one that has waited longest.
    """
    left, picked = budget * at_a_time, list[Test]()
    for test in waiting:
        took = seconds[test.id]
        if took <= left or not picked:
            picked.append(test)
            left -= took
        if left <= 0:
            break
    return picked


def oldest(tests: Iterable[Test], passed: Mapping[str, Mapping[str, Any]], count: int) -> list[tuple[str, str]]:
    """The day on which each of the longest waiting passed last (`never`), and its name."""
    rows = sorted((passed.get(test.id, {}).get("at", _NEVER)[:10], test.id) for test in tests)
    return [(at or "never", name) for at, name in rows[:count]]
