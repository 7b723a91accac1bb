"""docs/reference/metrics.md: each figure of an asset has its row, and no row is of a figure that there is not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"\bcdc/[a-z_]+\b")


OF_CHECKS = {
    *("cdc/changed_windows", "cdc/left", "cdc/right", "cdc/too_late_events", "cdc/backups"),
    *("cdc/baseline", "cdc/lost", "cdc/mirror", "cdc/none_silent", "cdc/not_read", "cdc/unsent_not_read"),
}
"""Figures that stand in the files of assets, of their checks alone: of a check the page has the figures that one reads."""


def figures(names: str) -> set[str]:
    files = (ROOT / "cdc_assets" / "defs").glob(names)
    return {name for file in files for name in re.findall(r'"(cdc/[a-z_]+)"', file.read_text(encoding="utf-8"))}


def test_every_figure_of_an_asset_has_its_row() -> None:
    told, made = set(FIGURE.findall(PAGE)), figures("*asset*.py")
    assert len(made) > 40
    assert sorted(made - told - OF_CHECKS) == []
    assert sorted(told - figures("*.py") - {"cdc/runbook"}) == []
