"""The last lines of a run: how many tests passed, failed and were skipped, and for want of which programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from cdc_assets_tests.run.record import Minutes

# By cdc_assets_tests/programs/wanted.py: the reason of a test whose program is missing.
_WITHOUT = re.compile(r"without (.+?): ")


def told(reasons: Mapping[str, int]) -> list[str]:
    """A line for each reason for which tests were skipped."""
    return [f"skipped {count}: {reason}" for reason, count in sorted(reasons.items())]


def last_line(minutes: Minutes) -> str:
    """`1204 passed, 3 failed, 15 skipped (12 without MariaDB's server)`."""
    lacking: Counter[str] = Counter()
    for reason, count in minutes.reasons.items():
        if match := _WITHOUT.match(reason):
            lacking[match[1]] += count
    counts = [f"{minutes.outcomes.get(name, 0)} {name}" for name in ("passed", "failed", "skipped") if _is_told(minutes, name)]
    programs = ", ".join(f"{count} without {title}" for title, count in sorted(lacking.items()))
    return ", ".join(counts) + (f" ({programs})" if programs else "")


def _is_told(minutes: Minutes, name: str) -> bool:
    return name == "passed" or bool(minutes.outcomes.get(name))
