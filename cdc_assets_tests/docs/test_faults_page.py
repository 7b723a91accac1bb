"""docs/reference/faults.md names tests that exist, and says which of them are played with `--all` alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "cdc_assets_tests"
PAGE = (ROOT / "docs" / "reference" / "faults.md").read_text()
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| #", "|---"))]
NAMED = re.compile(r"`([a-z_/]+\.py)?(?:::(test_\w+))?`(\*?)")
FAULTS = {str(number) for number in (*range(1, 68), 72)} | {f"S{number}" for number in range(1, 15)}


def numbers(cell: str) -> set[str]:
    """`| 5-8, 10`: those five."""
    found: set[str] = set()
    for part in filter(None, cell.strip("| ").split(", ")):
        first, _, last = part.partition("-")
        found |= {str(n) for n in range(int(first), int(last) + 1)} if last else {first}
    return found


def named(cell: str) -> list[tuple[str, str, bool]]:
    """Each test of a row: file, function (or none: the file), and whether it is marked as one of `--all`."""
    found: list[tuple[str, str, bool]] = []
    for file, function, star in NAMED.findall(cell):
        found.append((file or found[-1][0], function, bool(star)))
    return found


def marked_all(tree: ast.Module, function: str) -> bool:
    """By the whole file, or each of its own decorators; a file without a function: all of its tests are."""
    if not function:
        tests = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        return all(marked_all(tree, name) for name in tests)
    marks = [
        ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node.targets[0])
    ]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            marks += [ast.unparse(decorator) for decorator in node.decorator_list if "parametrize" not in ast.unparse(decorator)]
    return any("pytest.mark.all" in mark for mark in marks)


def test_every_fault_has_its_row() -> None:
    told = [number for row in ROWS for number in numbers(row[0])]
    assert sorted(told) == sorted(FAULTS)


@pytest.mark.parametrize("row", [row for row in ROWS if named(row[-1])], ids=lambda row: row[0].strip("| ") or "unnumbered")
def test_what_shows_it_exists(row: list[str]) -> None:
    for file, function, star in named(row[-1]):
        assert (TESTS / file).is_file(), file
        tree = ast.parse((TESTS / file).read_text())
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert function in defined if function else any(name.startswith("test_") for name in defined), (file, function)
        assert star == marked_all(tree, function), f"{file} {function}: the star says that only --all plays it"
