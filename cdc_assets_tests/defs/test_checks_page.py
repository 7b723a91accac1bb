"""Every check that can turn red has its section on docs/reference/checks.md, and no section is of a check that there is not."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.defs.check_results import check_result, runbook
from cdc_assets.defs.source_chain import build_source_defs, definitions_of
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.settings import sources_folder
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Cuts, DrillSettings
from cdc_assets.registry.table_declaration import WindowedResults
from cdc_assets_tests.support.declared_mariadb import GOOD, loaded

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "checks.md"
WORDS = re.compile(r"`(\w+)`")
HEADS = re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
NAMES = {name for head in HEADS for name in WORDS.findall(head)}
ITEMS = ["on", "red means", "lost?", "what mends it", "more"]


WINDOWS = WindowedResults(name="w", event_time="at", size=timedelta(hours=1), measures={"n": "count"})


def with_all(source: BaseSource) -> BaseSource:
    """With what not every table has."""
    more = {"history": "scd2", "windows": (WINDOWS,)}
    tables = tuple(t.model_copy(update=more) for t in source.tables)
    return source.model_copy(update={"tables": tables, "cuts": Cuts(), "drill": DrillSettings(every=timedelta(days=7))})


def test_every_check_has_its_section(tmp_path: Path) -> None:
    sources = [*load_sources(sources_folder()), loaded(tmp_path, GOOD)]
    definitions = [build_source_defs(with_all(source)) for source in sources]
    checks = {key.name for each in definitions for checks in each.asset_checks or () for key in checks.check_keys}
    assert checks == NAMES == definitions_of([]).check_names


def test_a_result_carries_its_section_to_the_person_who_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    key = dg.AssetCheckKey(dg.AssetKey("x"), "nothing_lost")
    shown = check_result(key, False, "lost", {}).metadata["cdc/runbook"]
    assert isinstance(shown, dg.MarkdownMetadataValue)
    assert "`cdc repair mirror TOPIC`" in (shown.md_str or "")
    assert "](" not in (shown.md_str or "")  # no link to where Dagster has nothing
    monkeypatch.setenv("CDC_DOCS_URL", "https://docs.example/lake/")
    linked = check_result(key, False, "lost", {}).metadata["cdc/runbook"]
    assert linked == dg.MetadataValue.url("https://docs.example/lake/reference/checks.md")


def test_every_section_is_whole() -> None:
    """Each item is one line of what Dagster shows, whatever the page's lines are."""
    shown = {name: runbook(name) for name in NAMES}
    assert [name for name, said in shown.items() if not isinstance(said, dg.MarkdownMetadataValue)] == []
    items = {name: re.findall(r"^\* \*\*(.*?)\*\*: \S.*$", str(said.value), re.MULTILINE) for name, said in shown.items()}
    assert {name: found for name, found in items.items() if found != ITEMS} == {}
    assert {name for name, said in shown.items() if len(str(said.value).splitlines()) != len(ITEMS)} == set()
