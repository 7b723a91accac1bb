"""Every command that changes something has its section, every page is in the index, what a page names is there, and the words
are plain: the counts of long sentences and lines are held here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cdc_assets.cli.cdc_command import app

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "cdc_assets_tests"
DOCS = ROOT / "docs"
OPERATIONS = (DOCS / "reference" / "operations.md").read_text()
DECISIONS, ARCHIVE = DOCS / "adr", DOCS / "adr" / "archive"
OURS = sorted(page for page in DOCS.rglob("*.md") if page.parent not in (DECISIONS, ARCHIVE))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *OURS, *sorted(DECISIONS.glob("*.md"))]
# In a wheel; what a reader is about to write.
ELSEWHERE = {"cdc_assets/spark/__main__.py"}
LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def test_every_operation_has_its_section() -> None:
    looking = re.search(r"Looking\s+\((.*?)\)\s+changes\s+nothing", OPERATIONS, re.DOTALL)
    assert looking
    told = {name.replace("|", " ") for name in re.findall(r"`([^`]+)`", looking[1])}
    told = {f"{name.split()[0]} {part}" if " " in name else name for name in told for part in name.split()[1:] or [""]}
    sections = re.findall(r"^## `cdc (.+)`$", OPERATIONS, re.MULTILINE)
    assert set(verbs()) - {"test"} == {re.sub(r" --.*", "", name) for name in sections} | told


def test_every_page_is_listed() -> None:
    pages = {str(page.relative_to(DOCS)) for page in OURS} - {"index.md"}
    assert sorted(pages - set(LINK.findall((DOCS / "index.md").read_text()))) == [], "add a row to docs/index.md"
    decisions = {str(page.relative_to(DECISIONS)) for page in DECISIONS.rglob("0*.md")}
    summed_up = set(LINK.findall((DECISIONS / "README.md").read_text()))
    assert sorted(decisions - summed_up) == [], "add a row with one sentence to docs/adr/README.md"
    assert {"docs/index.md", "docs/tutorial.md"} <= set(LINK.findall((ROOT / "README.md").read_text()))


def test_every_page_is_in_the_menu_of_the_site() -> None:
    listed = set(re.findall(r"^ +- (?:[\w -]+: )?(\S+\.md)$", (ROOT / ".ci" / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {str(page.relative_to(DOCS)) for page in OURS} - listed == set(), "add it to nav in .ci/mkdocs.yml"


def test_pages_lie_by_their_kind() -> None:
    """Tutorial, how-to, reference, explanation (diataxis.fr): the index lists a page under the folder it is in."""
    assert {page.name for page in DOCS.glob("*.md")} == {"index.md", "tutorial.md", "contributing.md", "benchmarks.md"}
    parts = (DOCS / "index.md").read_text().split("\n## ")[1:]
    listed = {part.split(":")[0].lower(): {Path(link).parts[0] for link in LINK.findall(part)} for part in parts}
    assert listed["how-to"] - {"contributing.md"} == {"how-to"}
    assert listed["reference"] - {"benchmarks.md"} == {"reference"}
    assert listed["explanation"] == {"explanation"}


def test_decisions_begin_with_a_summary() -> None:
    """Of one paragraph; its number in the title is that of its file."""
    form = re.compile(r"# (\d+)\. .+\n\n## Summary\n(?:.+\n)+\n")
    pages = {page: form.match(page.read_text()) for page in sorted(DECISIONS.rglob("0*.md"))}
    assert [page.name for page, found in pages.items() if not found or int(found[1]) != int(page.name[:4])] == []
    told = re.sub(r"\s+", " ", (DECISIONS / "README.md").read_text())
    there = {int(page.name[:4]) for page in pages}
    assert len(there) == len(pages), "a number is given twice"
    assert [n for n in range(1, max(there)) if n not in there and not re.search(rf"gaps: [^.]*\b{n}\b", told)] == []


def test_standing_decisions_are_few_and_short() -> None:
    """About fifteen, of two pages at most; their figures stand in the archive, to which they link."""
    standing = {page.name: page.read_text() for page in DECISIONS.glob("0*.md")}
    assert len(standing) <= 20
    assert [name for name, text in standing.items() if len(text.splitlines()) > 90 or "](archive/0" not in text] == []


def test_a_decision_that_the_code_names_is_there() -> None:
    there = {int(page.name[:4]) for page in DECISIONS.rglob("0*.md")}
    named = {
        (int(number), str(file.relative_to(ROOT)))
        for folder in ("cdc_assets", "spark", "cdc_assets_tests", "benchmarks", "docs")
        for file in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md"))
        for number in re.findall(r"\bADR (\d+)\b", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    assert sorted((number, file) for number, file in named if number not in there) == []


def test_pages_that_the_code_names_are_there() -> None:
    named = {
        (page, str(file.relative_to(ROOT)))
        for folder in ("cdc_assets", "spark", "cdc_assets_tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert sorted((page, file) for page, file in named if not (ROOT / page).exists()) == []


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_changelog_says_what_a_version_brings() -> None:
    """By capability, the first version in 250 lines; nothing was released before it, so nothing of it was mended."""
    text = (ROOT / "CHANGELOG.md").read_text()
    version = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == version
    first = text.split("\n## 0.1.0\n")[1]
    assert len(first.splitlines()) <= 250
    assert re.findall(r"no longer|earlier (?:version|release)|(?:It|They) (?:had|was) ", first) == []
    assert [link for link in LINK.findall(text) if not (ROOT / link).exists()] == []


def test_lines_and_sentences_are_short() -> None:
    """No line of prose over 100 columns, links apart, and no sentence over 30 words: five of each in all pages together."""
    wide, long = [], []
    for page in PAGES:
        lines = [line for line in prose(page.read_text()) if not line.startswith("#")]
        wide += [f"{page.name}: {line}" for line in lines if len(re.sub(r"\]\([^)]*\)", "", line)) > 100]
        long += [f"{page.name}: {sentence}" for sentence in sentences(lines) if len(sentence.split()) > 30]
    assert len(wide) <= 5, wide
    assert len(long) <= 5, long


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    if page.parent == ARCHIVE:
        return  # It names the files of its day.
    named = re.findall(r"`((?:\w+/)?test_\w+\.py)(?:::(\w+))?`", text)
    files = {file: [*TESTS.rglob(file)] for file, _ in named}
    assert [file for file, found in files.items() if not found] == []
    assert [test for file, test in named if test and f"def {test}(" not in files[file][0].read_text()] == []
    paths = re.findall(r"`((?:cdc_assets|cdc_assets_tests|spark|benchmarks|docs|\.ci)/[\w./-]+)`", text)
    assert sorted({path for path in paths if not (ROOT / path).exists() and "/test_" not in path} - ELSEWHERE) == []
    modules = re.findall(r"python -m ((?:cdc_assets_tests|cdc_assets|spark|benchmarks)(?:\.\w+)*)", text)
    assert sorted({name for name in modules if not is_module(name)}) == []


def is_module(name: str) -> bool:
    place = ROOT / name.replace(".", "/")
    return place.with_suffix(".py").exists() or (place / "__main__.py").exists()


def prose(text: str) -> Iterator[str]:
    """The lines outside of code and tables; an empty one where a paragraph ends."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield ""
        elif not fenced:
            yield "" if line.lstrip().startswith("|") else line


def sentences(lines: list[str]) -> Iterator[str]:
    for paragraph in "\n".join(lines).split("\n\n"):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*]|- |\d+\. )", " ".join(re.sub(r"`[^`]*`", "X", paragraph).split()))


def verbs(group: Any = None, before: str = "") -> Iterator[str]:
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"
