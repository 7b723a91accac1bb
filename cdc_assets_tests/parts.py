"""The parts of the suite that `cdc test` runs side by side, told by what a test needs to have running.

Alone, each leaves half of two cores idle: a fold is driven by one thread, a connector is mostly waited for. A file is of one
part, so that what its fixtures start is started once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

LIVE, STACK, SPARK, HOSTILE, BREAKING, REST = "live", "stack", "spark", "hostile", "breaking", "rest"
"""Databases and Debezium, with or without Spark; one embedded stack; Spark and Kafka alone, which are the ground's; the hostile
worlds; what starts, stops, kills or fills servers of its own; the rest."""
PARTS = (LIVE, STACK, SPARK, HOSTILE, BREAKING, REST)
"""In this order they begin: the first two cannot be shared out, and wait for most of their time."""
TESTS = Path(__file__).parent
_STARTED = frozenset(
    {"live", "remote", "kafka", "stack", "lakehouse", "mariadb", "mysql", "endpoint", "clusters", "foreign_python", "schemas"}
)
"""Fixtures that start something, or take as long."""
_SERVED = frozenset({"backup", "e2e", "hostile", "mirroring", "stack"})
"""Folders whose tests do so by themselves, some in processes of their own."""
_OWN = frozenset({"e2e", "mirroring", "stack"})
"""Of those the folders whose tests start servers of several kinds."""


def is_served(item: pytest.Item) -> bool:
    """Whether it starts a server or a JVM: by its mark, its fixtures, or its folder."""
    fixtures = getattr(item, "fixturenames", ())
    return (
        not _SERVED.isdisjoint(_folders(item.path))
        or item.get_closest_marker("service") is not None
        or not _STARTED.isdisjoint(fixtures)
    )


def parts_of(items: Iterable[pytest.Item]) -> dict[Path, str]:
    """The part of each file: the first one that a test of it is of."""
    parts: dict[Path, str] = {}
    for item in items:
        parts[item.path] = min(_part_of(item), parts.get(item.path, REST), key=PARTS.index)
    return parts


def _part_of(item: pytest.Item) -> str:
    """By the fixtures that it asks for, itself or through others, or its folder."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if HOSTILE in _folders(item.path):
        return HOSTILE
    if fixtures & {STACK, "lakehouse"}:
        return STACK
    if LIVE in fixtures:
        return LIVE
    if fixtures & {"remote", "kafka"}:
        return SPARK
    return BREAKING if item.path.parent.name in _OWN else REST


def _folders(path: Path) -> tuple[str, ...]:
    return path.parent.relative_to(TESTS).parts if TESTS in path.parents else ()
