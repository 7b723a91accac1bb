"""The stack for these tests."""

from __future__ import annotations

from cdc_assets_tests.support.stack_fixture import stack

__all__ = ["stack"]
