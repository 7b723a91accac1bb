"""The parts of the suite that `cdc test` runs side by side, told by what a test needs to have running.

Alone, each leaves half of two cores idle: a fold is driven by one thread, a connector is mostly waited for. Two at a time:
three wait for each other, and tests run into their time limits.
"""

from __future__ import annotations

import pytest

LIVE, SPARK, E2E, STACK, REST = "live", "spark", "e2e", "stack", "rest"
"""PostgreSQL and Debezium (with Spark, where that is asked for as well); Spark alone; the folders `e2e` and `stack`; the rest."""
PARTS = (LIVE, SPARK, E2E, STACK, REST)


def part_of(item: pytest.Item) -> str:
    """By its folder, or the fixtures that it asks for, itself or through others."""
    if item.path.parent.name in (E2E, STACK):
        return item.path.parent.name
    fixtures = getattr(item, "fixturenames", ())
    if LIVE in fixtures:
        return LIVE
    return SPARK if {"remote", "kafka"} & set(fixtures) else REST
