"""Every command that changes something has its section, every page is in README's list, every test that a page names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cdc_assets.cli import app

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "cdc_assets_tests"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def test_every_operation_has_its_section() -> None:
    looking = re.search(r"Looking\s+\((.*?)\)\s+changes\s+nothing", OPERATIONS, re.DOTALL)
    assert looking
    told = {name.replace("|", " ") for name in re.findall(r"`([^`]+)`", looking[1])}
    told = {f"{name.split()[0]} {part}" if " " in name else name for name in told for part in name.split()[1:] or [""]}
    sections = re.findall(r"^## `cdc (.+)`$", OPERATIONS, re.MULTILINE)
    assert set(verbs()) - {"test"} == {re.sub(r" --.*", "", name) for name in sections} | told


def test_every_page_is_listed() -> None:
    listed = (ROOT / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"docs/{page.name}" not in listed] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`((?:\w+/)?test_\w+\.py)(?:::(\w+))?`", text)
    files = {file: [*TESTS.rglob(file)] for file, _ in named}
    assert [file for file, found in files.items() if not found] == []
    assert [test for file, test in named if test and f"def {test}(" not in files[file][0].read_text()] == []
    links = re.findall(r"\]\(([\w./-]+\.md)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def verbs(group: Any = None, before: str = "") -> Iterator[str]:
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"
