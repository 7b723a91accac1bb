"""`--fast`, the default and `--all`, on the suite itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A test that nobody can ask for by the three commands of docs/contributing.md is one that nobody runs.
GATE = re.compile(r"os\.environ(?:\.get\(|\[)\"CDC_(?:TEST|TALLY|\w+_SEEDS)|\"CDC_(?:TEST_\w+|TALLY|\w+_SEEDS)\"")
TESTS = """
import subprocess
import pytest

def test_plain():
    pass

@pytest.mark.all
def test_long():
    pass

@pytest.mark.service
def test_server():
    pass

@pytest.mark.slow
def test_slow():
    pass

def test_hidden_server():
    subprocess.run(["java", "-version"])
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A small suite."""
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def played(folder: Path, *options: str) -> tuple[set[str], str]:
    """The tests that ran, chosen as ours are, whatever came of them; and what was printed."""
    options = ("-p", "no:cacheprovider", "-p", "cdc_assets_tests.chosen", "-c", str(ROOT / "pyproject.toml"), *options)
    command = [sys.executable, "-m", "pytest", "-v", "--rootdir", ".", str(folder), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return set(re.findall(r"::(test_\w+) (?:PASSED|FAILED)", done.stdout)), done.stdout + done.stderr


@pytest.mark.slow
def test_what_takes_long_is_played_when_asked_for(suite: Path) -> None:
    named, told = played(suite)
    assert named == {"test_plain", "test_server", "test_slow", "test_hidden_server"}, told
    assert "1 of the deselected are played with --all" in told
    assert played(suite, "--all")[0] == {*named, "test_long"}


@pytest.mark.slow
def test_fast_starts_no_server_and_refuses_one_that_nobody_has_marked(suite: Path) -> None:
    named, told = played(suite, "--fast")
    assert named == {"test_plain", "test_hidden_server"}, told
    assert "--fast starts no java: mark this test with pytest.mark.service" in told
    assert "1 failed, 1 passed" in told


@pytest.mark.slow
def test_a_file_names_what_is_played_marked_or_not(suite: Path) -> None:
    chosen, all_of_them = suite / "chosen", suite / "all.json"
    chosen.write_text("test_it.py::test_long\ntest_it.py::test_plain")
    named, told = played(suite, f"--chosen={chosen}", f"--catalogue={all_of_them}")
    assert named == {"test_long", "test_plain"}, told
    assert "are played with --all" not in told
    rows = {row["id"]: (row["is_core"], row["is_fast"]) for row in json.loads(all_of_them.read_text())}
    assert rows["test_it.py::test_long"] == (False, True)
    assert rows["test_it.py::test_server"] == rows["test_it.py::test_slow"] == (True, False)
    assert len(rows) == 5


def test_no_test_is_asked_for_by_a_variable() -> None:
    files = [file for file in (ROOT / "cdc_assets_tests").rglob("*.py") if file != Path(__file__)]
    assert [str(file.relative_to(ROOT)) for file in files if GATE.search(file.read_text())] == []
