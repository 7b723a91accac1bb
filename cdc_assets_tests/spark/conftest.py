"""What asks for a Spark session here is of the Spark tier."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
