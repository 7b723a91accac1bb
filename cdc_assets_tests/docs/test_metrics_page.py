"""docs/reference/metrics.md: each figure of an asset has its row, and no row is of a figure that there is not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"\bcdc/[a-z_]+\b")


def figures(folder: str) -> set[str]:
    files = (ROOT / "cdc_assets" / "defs" / folder).rglob("*.py")
    return {name for file in files for name in re.findall(r'"(cdc/[a-z_]+)"', file.read_text(encoding="utf-8"))}


def test_every_figure_of_an_asset_has_its_row() -> None:
    of_assets, of_checks = PAGE.split("\n## Checks\n")
    told, made = set(FIGURE.findall(of_assets)), figures("assets")
    assert len(made) > 40
    assert sorted(made - told) == []
    assert sorted(told - made - {"cdc/runbook"}) == []
    # Of a check the figures that one reads; each is made by the checks.
    assert sorted(set(FIGURE.findall(of_checks)) - figures("checks")) == []
