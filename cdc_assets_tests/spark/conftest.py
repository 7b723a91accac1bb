"""What asks for a Spark session here is of the Spark tier; what a test has written is compared at its end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from cdc_assets_tests.support.lake.both_writers import compare_written
from cdc_assets_tests.support.lake.lake import WRITTEN


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    WRITTEN.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """As a part of the test: it is the one that fails."""
    answer = yield
    compare_written()
    return answer
