"""What the tests that kill a capture and those that move its slot share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets_tests.support.live.captured_table import captured_table
from cdc_assets_tests.support.live.live_source import LiveSource


@pytest.fixture
def captured(live: LiveSource, request: pytest.FixtureRequest) -> Iterator[LiveSource]:
    """A connector of its own on a table `public.<the test's name>`, which is not started yet."""
    with captured_table(live, request.node.name.removeprefix("test_")[:40]) as own:
        yield own
