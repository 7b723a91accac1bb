"""The pages that lead through the code: each file and name of the questions is there, and each room has its row."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPLANATION = ROOT / "docs" / "explanation"
ARCHITECTURE = (EXPLANATION / "architecture.md").read_text()
ROWS = re.findall(r"^\| ([^|]*\?) \| `([\w/.]+)` \| (.*) \|$", (EXPLANATION / "where.md").read_text(), re.MULTILINE)
WALK = ARCHITECTURE.split("\n## An UPDATE, from its topic to silver\n")[1]


def defined_in(file: Path) -> set[str]:
    """The public names of a module: functions, classes, and what is assigned to."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize(("file", "names"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_answer_to_a_question_is_there(file: str, names: str) -> None:
    asked = set(re.findall(r"`(\w+)`", names))
    assert asked
    assert asked - defined_in(ROOT / file) == set()


def test_thirty_questions_are_answered() -> None:
    assert len({question for question, *_ in ROWS}) == len(ROWS) >= 30


def test_each_room_has_one_row() -> None:
    rows = re.findall(r"^\| `([\w/]+)/` \|", ARCHITECTURE, re.MULTILINE)
    rooms = {
        f"{package}/{room.name}"
        for package in ("cdc_assets", "spark")
        for room in (ROOT / package).iterdir()
        if (room / "__init__.py").exists()
    }
    assert sorted(rows) == sorted(rooms)


def test_each_file_of_the_walk_is_one_file() -> None:
    named = re.findall(r"`([\w/]+\.py)`", WALK)
    assert len(named) > 20
    there = {str(file.relative_to(ROOT)) for package in ("cdc_assets", "spark") for file in (ROOT / package).rglob("*.py")}
    found = {name: [file for file in there if f"/{file}".endswith(f"/{name}")] for name in named}
    assert {name: files for name, files in found.items() if len(files) != 1} == {}
