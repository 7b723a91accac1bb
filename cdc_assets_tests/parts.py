"""The parts of the suite that `cdc test` runs side by side, told by what a test needs to have running.

Alone, each leaves half of two cores idle: a fold is driven by one thread, a connector is mostly waited for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

LIVE, SPARK, ORDER, E2E, STACK, HOSTILE, REST = "live", "spark", "order", "e2e", "stack", "hostile", "rest"
"""PostgreSQL and Debezium (with Spark, where that is asked for as well); Spark alone, and of that what comes late, again or in
another order, a third of it; the folders `e2e`, `stack` and `hostile`; the rest."""
PARTS = (LIVE, SPARK, ORDER, E2E, STACK, HOSTILE, REST)
_ORDER = frozenset(
    f"test_{name}" for name in ("late", "moves", "multiset", "order", "partial_rows", "scd2", "scd2_again", "truncate")
)
_STARTED = frozenset(
    {"live", "remote", "kafka", "stack", "lakehouse", "mariadb", "mysql", "endpoint", "clusters", "foreign_python", "schemas"}
)
"""Fixtures that start something, or take as long."""
_SERVED = frozenset({"backup", E2E, "hostile", "mirroring", STACK})
"""Folders whose tests do so by themselves, some in processes of their own."""


def is_served(item: pytest.Item) -> bool:
    """Whether it starts a server or a JVM: by its mark, its fixtures, or its folder."""
    here = Path(__file__).parent
    folder = item.path.relative_to(here).parts[0] if here in item.path.parents else ""
    fixtures = getattr(item, "fixturenames", ())
    return folder in _SERVED or item.get_closest_marker("service") is not None or not _STARTED.isdisjoint(fixtures)


def part_of(item: pytest.Item) -> str:
    """By its folder, or the fixtures that it asks for, itself or through others."""
    if item.path.parent.name in (E2E, STACK, HOSTILE):
        return item.path.parent.name
    fixtures = getattr(item, "fixturenames", ())
    if LIVE in fixtures:
        return LIVE
    if {"remote", "kafka"} & set(fixtures):
        return ORDER if item.path.stem in _ORDER else SPARK
    return REST
