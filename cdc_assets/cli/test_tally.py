"""The last line of `cdc test`: how many tests passed, failed and were skipped, and for want of which programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

# By cdc_assets_tests/programs/wanted.py: the reason of a test whose program is missing.
_WITHOUT = re.compile(r"without (.+?): ")


def read_tally(files: Iterable[Path]) -> tuple[Counter[str], Counter[str]]:
    """Tests by outcome (`passed`, `failed`, `skipped`), and the skipped ones by their reason, from pytest's JUnit files."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for file in files:
        if not file.exists():
            # A step that is no pytest, or that ended before its first test.
            continue
        # Written by the pytest that we have just run.
        for case in ElementTree.parse(file).iter("testcase"):
            if (skipped := case.find("skipped")) is not None:
                outcomes["skipped"] += 1
                reasons[skipped.get("message") or "no reason"] += 1
            else:
                outcomes["passed" if case.find("failure") is None and case.find("error") is None else "failed"] += 1
    return outcomes, reasons


def part_minutes(files: Iterable[Path]) -> dict[str, float]:
    """How long each part took, by the name of its JUnit file, the longest first."""
    trees = {file.stem: ElementTree.parse(file) for file in files if file.exists()}
    found = {name: sum(float(suite.get("time", 0)) for suite in tree.iter("testsuite")) / 60 for name, tree in trees.items()}
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def last_line(outcomes: Counter[str], reasons: Counter[str]) -> str:
    """`1204 passed, 3 failed, 15 skipped (12 without MariaDB's server)`."""
    lacking: Counter[str] = Counter()
    for reason, count in reasons.items():
        if match := _WITHOUT.match(reason):
            lacking[match[1]] += count
    parts = [f"{outcomes[name]} {name}" for name in ("passed", "failed", "skipped") if outcomes[name] or name == "passed"]
    told = ", ".join(f"{count} without {title}" for title, count in sorted(lacking.items()))
    return ", ".join(parts) + (f" ({told})" if told else "")
