"""The test files that a change of the working tree touches, by the graph of imports (grimp, as import-linter asks it).

A module that only the rows of `cdc_assets/kinds` name, as text, is imported by no test: then those of its folder's other modules
are taken. A change of the tests' own code touches what is below a `conftest.py` that imports it, too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import grimp

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run.catalogue import ROOT

_TESTS = "cdc_assets_tests"
_PACKAGES = ("cdc_assets", "spark", "benchmarks", _TESTS)
_PAGES = ROOT / _TESTS / "docs"


def changed_files() -> list[str]:
    """What differs from the last commit, and what git does not know yet.

    Raises:
        CdcAssetsError: this is no clone.
    """
    command = ["git", "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CdcAssetsError(f"--changed asks git what has changed, and it says: {done.stderr.strip()}")
    # Two letters and a blank stand before each name.
    return sorted(entry[3:] for entry in done.stdout.split("\0") if entry)


def touched(files: Iterable[str]) -> tuple[set[str], list[str]]:
    """The touched test files, relative to the root, and the changed files of which no import tells."""
    graph = grimp.build_graph(*_PACKAGES, include_external_packages=False)
    modules, others = set[str](), list[str]()
    for file in files:
        module = _module(file)
        if module in graph.modules:
            modules |= tests_of(graph, module)
        else:
            others.append(file)
    tests = {_path(module) for module in modules}
    if others:
        tests |= {str(path.relative_to(ROOT)) for path in _PAGES.glob("test_*.py")}
    return tests, others


def tests_of(graph: grimp.ImportGraph, module: str) -> set[str]:
    """The test modules that a change of one module touches."""
    above = {module, *graph.find_downstream_modules(module)}
    tests = {name for name in above if _is_test(name)}
    if module.startswith(_TESTS):
        folders = tuple(name.removesuffix("conftest") for name in above if name.endswith(".conftest"))
        tests |= {name for name in graph.modules if _is_test(name) and name.startswith(folders)}
    if not tests:
        for beside in graph.find_children(module.rpartition(".")[0]):
            tests |= {name for name in graph.find_downstream_modules(beside) if _is_test(name)}
    return tests


def _is_test(module: str) -> bool:
    return module.startswith(_TESTS) and module.rpartition(".")[2].startswith("test_")


def _module(file: str) -> str:
    """`spark/errors.py`: `spark.errors`; empty for what is no module."""
    path = Path(file)
    if path.suffix != ".py" or path.parts[0] not in _PACKAGES:
        return ""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _path(module: str) -> str:
    """The file of a test module, relative to the root."""
    return str(Path(*module.split(".")).with_suffix(".py"))
