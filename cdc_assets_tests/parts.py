"""The parts of the suite that `cdc test` runs side by side, told by what a test needs to have running.

Alone, each leaves half of two cores idle: a fold is driven by one thread, a connector is mostly waited for.
"""

from __future__ import annotations

import pytest

LIVE, SPARK, ORDER, E2E, STACK, REST = "live", "spark", "order", "e2e", "stack", "rest"
"""PostgreSQL and Debezium (with Spark, where that is asked for as well); Spark alone, and of that what comes late, again or in
another order, a third of it; the folders `e2e` and `stack`; the rest."""
PARTS = (LIVE, SPARK, ORDER, E2E, STACK, REST)
_ORDER = frozenset(
    f"test_{name}" for name in ("late", "moves", "multiset", "order", "partial_rows", "scd2", "scd2_again", "truncate")
)


def part_of(item: pytest.Item) -> str:
    """By its folder, or the fixtures that it asks for, itself or through others."""
    if item.path.parent.name in (E2E, STACK):
        return item.path.parent.name
    fixtures = getattr(item, "fixturenames", ())
    if LIVE in fixtures:
        return LIVE
    if {"remote", "kafka"} & set(fixtures):
        return ORDER if item.path.stem in _ORDER else SPARK
    return REST
