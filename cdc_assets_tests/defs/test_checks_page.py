"""Every check that can turn red has its line on docs/reference/checks.md, and no line is of a check that there is not."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.runbook import runbook
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.source_settings import Cuts, DrillSettings
from cdc_assets.registry.windowed_results import WindowedResults
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.settings import sources_folder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "checks.md"
WORDS = re.compile(r"`(\w+)`")


WINDOWS = WindowedResults(name="w", event_time="at", size=timedelta(hours=1), measures={"n": "count"})


def with_all(source: BaseSource) -> BaseSource:
    """With what not every table has."""
    more = {"history": "scd2", "windows": (WINDOWS,)}
    tables = tuple(t.model_copy(update=more) for t in source.tables)
    return source.model_copy(update={"tables": tables, "cuts": Cuts(), "drill": DrillSettings(every=timedelta(days=7))})


def test_every_check_has_its_line() -> None:
    definitions = [build_source_defs(with_all(source)) for source in load_sources(sources_folder())]
    checks = {key.name for each in definitions for checks in each.asset_checks or () for key in checks.check_keys}
    lines = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {name for line in lines for name in WORDS.findall(line)} == checks


def test_a_result_carries_its_line_to_the_person_who_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    key = dg.AssetCheckKey(dg.AssetKey("x"), "nothing_lost")
    shown = check_result(key, False, "lost", {}).metadata["cdc/runbook"]
    assert isinstance(shown, dg.MarkdownMetadataValue)
    assert "`cdc repair mirror TOPIC`" in (shown.md_str or "")
    assert "](" not in (shown.md_str or "")  # no link to where Dagster has nothing
    monkeypatch.setenv("CDC_DOCS_URL", "https://docs.example/lake/")
    linked = check_result(key, False, "lost", {}).metadata["cdc/runbook"]
    assert linked == dg.MetadataValue.url("https://docs.example/lake/reference/checks.md")


def test_every_line_is_found_by_its_check() -> None:
    names = {
        name for line in PAGE.read_text().splitlines() if line.startswith("| `") for name in WORDS.findall(line.split("|")[1])
    }
    assert {name for name in names if not isinstance(runbook(name), dg.MarkdownMetadataValue)} == set()
