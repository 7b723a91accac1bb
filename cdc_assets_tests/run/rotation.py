"""Which of the tests that are not of the core a run plays: those that have waited longest, as many as its minutes hold."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.hostile.seeds import seed_of_files
from cdc_assets_tests.parts import REST, SPARK
from cdc_assets_tests.run.catalogue import Test

_UNKNOWN, _UNKNOWN_FAST = 10.0, 0.05
"""Seconds of a test that nobody has recorded: the means of those that start or ask a server, and of the others."""
_SHORTEST = 60.0
_APART = frozenset({SPARK, REST})
"""Parts whose tests need nothing of each other; elsewhere a test may go on with what the one before it has made."""
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


def waited(tests: Iterable[Test], passed: Mapping[str, Mapping[str, Any]], seed: int) -> list[list[Test]]:
    """The longest waiting first, by the day on which each passed last; those of one day in the seed's order.

    What is played together is one: a file whose tests may need each other, which waits as long as its oldest, or a test. The
    seed shuffles files, and leaves a file's tests together: what a module starts is started once.
    """
    groups: dict[str, list[Test]] = {}
    for test in tests:
        groups.setdefault(test.id if test.part in _APART else test.file, []).append(test)
    files = sorted({group[0].file for group in groups.values()})
    random.Random(seed).shuffle(files)
    place = {file: at for at, file in enumerate(files)}

    def day(group: Sequence[Test]) -> str:
        return min(str(passed.get(test.id, {}).get("at", _NEVER))[:10] for test in group)

    return sorted(groups.values(), key=lambda group: (day(group), place[group[0].file]))


def chosen(
    waiting: Iterable[Sequence[Test]], seconds: Mapping[str, float], budget: float, at_a_time: int
) -> list[Sequence[Test]]:
    """As many as `budget` seconds hold with so many side by side, at least one; what is too long for the rest is passed over.

    What alone is longer than the budget is chosen when it is what has waited longest.
    """
    left, picked = budget * at_a_time, list[Sequence[Test]]()
    for group in waiting:
        took = sum(seconds[test.id] for test in group)
        if (took <= budget and took <= left) or not picked:
            picked.append(group)
            left -= took
        if left <= 0:
            break
    return picked


def oldest(tests: Iterable[Test], passed: Mapping[str, Mapping[str, Any]], count: int) -> list[tuple[str, str]]:
    """The day on which each of the longest waiting passed last (`never`), and its name."""
    rows = sorted((passed.get(test.id, {}).get("at", _NEVER)[:10], test.id) for test in tests)
    return [(at or "never", name) for at, name in rows[:count]]
