"""The parts of the suite that `cdc test` runs side by side, told by what a test needs to have running.

Alone, each leaves half of two cores idle: a fold is driven by one thread, a connector is mostly waited for. A file is of one
part, so that what its fixtures start is started once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

CHAIN, LIVE, SPARK, ORDER, E2E, STACK, HOSTILE, REST = "chain", "live", "spark", "order", "e2e", "stack", "hostile", "rest"
"""PostgreSQL and Debezium with Spark; the two alone; Spark alone, and of that half: what comes late, again or in another order,
and what is made of bronze a second time or beside silver; the folders `e2e`, `stack` and `hostile`; the rest."""
PARTS = (CHAIN, LIVE, SPARK, ORDER, E2E, STACK, HOSTILE, REST)
TESTS = Path(__file__).parent
_FOLDERS = {SPARK: "spark", ORDER: "spark", E2E: E2E, STACK: STACK, HOSTILE: HOSTILE}
"""The folder in which all tests of a part are: to collect the others takes seven seconds."""
_ORDER = frozenset(
    f"test_{name}"
    for name in (
        *("late", "moves", "multiset", "order", "partial_rows", "scd2", "scd2_again", "truncate"),
        *("boundaries", "ledger", "ledger_again", "ledger_cut", "random_histories", "refine", "replay", "stream"),
    )
)
_STARTED = frozenset(
    {"live", "remote", "kafka", "stack", "lakehouse", "mariadb", "mysql", "endpoint", "clusters", "foreign_python", "schemas"}
)
"""Fixtures that start something, or take as long."""
_SERVED = frozenset({"backup", E2E, "hostile", "mirroring", STACK})
"""Folders whose tests do so by themselves, some in processes of their own."""


def is_served(item: pytest.Item) -> bool:
    """Whether it starts a server or a JVM: by its mark, its fixtures, or its folder."""
    fixtures = getattr(item, "fixturenames", ())
    return _folder(item.path) in _SERVED or item.get_closest_marker("service") is not None or not _STARTED.isdisjoint(fixtures)


def parts_of(items: Iterable[pytest.Item]) -> dict[Path, str]:
    """The part of each file: the first one that a test of it is of.

    Raises:
        pytest.UsageError: a file is not in the folder of its part, which would never be asked for it.
    """
    found: dict[Path, str] = {}
    for item in items:
        found[item.path] = min(_part_of(item), found.get(item.path, REST), key=PARTS.index)
    for path, part in found.items():
        if TESTS in path.parents and _folder(path) != _FOLDERS.get(part, _folder(path)):
            raise pytest.UsageError(f"{path}: a test of the part {part} belongs below cdc_assets_tests/{_FOLDERS[part]}")
    return found


def is_elsewhere(path: Path, parts: Iterable[str]) -> bool:
    """Whether no test of these parts is there."""
    folders = {_FOLDERS.get(part) for part in parts}
    return None not in folders and TESTS in path.parents and _folder(path) not in folders


def _part_of(item: pytest.Item) -> str:
    """By its folder, or the fixtures that it asks for, itself or through others."""
    if item.path.parent.name in (E2E, STACK, HOSTILE):
        return item.path.parent.name
    fixtures = getattr(item, "fixturenames", ())
    if LIVE in fixtures:
        return CHAIN if "remote" in fixtures else LIVE
    if {"remote", "kafka"} & set(fixtures):
        return ORDER if item.path.stem in _ORDER else SPARK
    return REST


def _folder(path: Path) -> str:
    return path.relative_to(TESTS).parts[0] if TESTS in path.parents else ""
