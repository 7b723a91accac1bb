"""`cdc reconcile --report`: one file with the facts of `-o json`, which asks nobody for anything and knows its own digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import reconcile
from cdc_assets.proof.comparison_report import FACTS
from cdc_assets.proof.comparison_result import (
    DIFFERENT,
    EQUAL,
    INCONCLUSIVE,
    HistoryDifference,
    HistoryResult,
    RowDifference,
    TableResult,
)
from cdc_assets_tests.support.declared import declare

YAML = """\
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.a}, {name: public.b}, {name: public.c}]
"""
ODD = "<script src='//elsewhere'>x</script> & \u202e"
COUNTS: dict[str, Any] = {"lsn": "0/99", "source_rows": 2, "silver_rows": 2, "source_digest": "d1", "silver_digest": "d2"}
FOUND = RowDifference("1;", "differs", {"id": "1", "v": ODD}, {"id": "1", "v": None}, "silver")
HISTORY = HistoryResult(
    "shop/a",
    DIFFERENT,
    versions=3,
    keys_differing=1,
    differences=(HistoryDifference("1;", ("missing",), ("v0",), ("v",), "history", ("bronze",)),),
)
RESULTS = {
    "a": TableResult("shop/a", DIFFERENT, **COUNTS, keys_differing=3, differences=(FOUND,), healed=0, history=HISTORY),
    "b": TableResult("shop/b", EQUAL, **COUNTS, buckets=2),
    "c": TableResult("shop/c", INCONCLUSIVE, ODD),
}


class Page(HTMLParser):
    """The tables of a page as rows of texts, the tags that it has, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.is_in_cell = False
        self.fetched: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [(name, value) for name, value in attrs if name in ("src", "href", "srcset", "data") or name[:2] == "on"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self.is_in_cell = self.is_in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.is_in_cell:
            self.rows[-1][-1] += data


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[dict[str, Any]]]:
    """The file that the command has written, and what it printed as JSON."""
    declare(tmp_path, monkeypatch, YAML)
    monkeypatch.setattr(reconcile, "compare_rows", lambda _, tables, __: {t.id.table: RESULTS[t.id.table] for t in tables})
    monkeypatch.setattr(reconcile, "prove_histories", lambda *_, **__: {"a": HISTORY})
    file = tmp_path / "proof.html"
    told = CliRunner().invoke(app, ["reconcile", "shop", "--report", str(file), "-o", "json"])
    assert told.exit_code == 1, told.output
    return file, json.loads(told.stdout)


def test_the_report_has_the_facts_that_programs_get(page: tuple[Path, list[dict[str, Any]]]) -> None:
    file, data = page
    rows = [tuple(row[:2]) for row in Page(file.read_text()).rows]
    for table in data:
        for name in FACTS:
            value = table[name]
            if value not in (None, "", [], {}) and "\u202e" not in str(value):
                assert (name, value if isinstance(value, str) else json.dumps(value)) in rows, (table["table"], name)
    assert ("1;", "differs") in rows
    assert ("1;", '["missing"]') in rows
    assert "And 2 keys more." in file.read_text()


def test_it_asks_nobody_and_a_value_is_no_markup(page: tuple[Path, list[dict[str, Any]]]) -> None:
    shown = Page(text := page[0].read_text())
    assert shown.fetched == []
    assert shown.tags <= {"html", "meta", "title", "style", "h1", "h2", "h3", "table", "tr", "td", "th", "p", "code"}
    assert "\u202e" not in text
    assert any("<script src='//elsewhere'>x</script> & " in cell for row in shown.rows for cell in row)


def test_its_last_line_tells_whether_it_is_as_it_was_written(page: tuple[Path, list[dict[str, Any]]]) -> None:
    *lines, last = page[0].read_text().splitlines(keepends=True)
    assert hashlib.sha256("".join(lines).encode()).hexdigest() in last
    changed = "".join(lines).replace("shop/b: equal", "shop/b: different")
    assert hashlib.sha256(changed.encode()).hexdigest() not in last


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, YAML)
    monkeypatch.setattr(reconcile, "compare_rows", lambda _, tables, __: {t.id.table: replace(RESULTS["b"]) for t in tables})
    told = CliRunner().invoke(app, ["reconcile", "shop", "--report", str(tmp_path / "nowhere" / "proof.html")])
    assert (told.exit_code, "No such file or directory" in told.stderr) == (2, True), told.output
