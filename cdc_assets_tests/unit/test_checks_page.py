"""Every check that can turn red has its line on docs/checks.md, and no line is of a check that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from cdc_assets.assets.chain import build_source_defs
from cdc_assets.registry.loader import load_sources
from cdc_assets.settings import sources_folder

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def test_every_check_has_its_line() -> None:
    definitions = [build_source_defs(source) for source in load_sources(sources_folder())]
    checks = {key.name for each in definitions for checks in each.asset_checks or () for key in checks.check_keys}
    lines = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {name for line in lines for name in re.findall(r"`(\w+)`", line)} == checks
