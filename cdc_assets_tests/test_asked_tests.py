"""What a test imports is there, also where it is not played by default."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in sorted(ROOT.glob("cdc_assets_tests/**/test_*.py"))]


@pytest.mark.parametrize("module", MODULES)
def test_can_be_imported(module: str) -> None:
    importlib.import_module(module)
