"""A plugin of pytest, `-p cdc_assets_tests.programs.when_asked`: a program that is missing is brought when a test asks for it."""

from __future__ import annotations

from functools import cache

import pytest

from cdc_assets_tests.programs.__main__ import bring, plan
from cdc_assets_tests.programs.wanted import Program, bring_when_asked


def pytest_configure(config: pytest.Config) -> None:
    """One try for each: the tests of what cannot be brought are skipped."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None

    @cache
    def bring_once(program: Program) -> None:
        # It takes up to minutes, and says so.
        with capture.global_and_fixture_disabled():
            bring(*plan([program]))

    bring_when_asked(bring_once)
