"""The last line of `cdc test`, from what pytest itself has written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets.cli.test_tally import last_line, part_minutes, read_tally

TESTS = """
from unittest import SkipTest
import pytest

def test_one():
    pass

def test_two():
    assert False

@pytest.fixture
def broken():
    raise OSError

def test_three(broken):
    pass

@pytest.fixture
def server():
    raise SkipTest("without MariaDB's server: no apt-get")

def test_four(server):
    pass

def test_five(server):
    pass

@pytest.mark.skip(reason="asked for by a variable")
def test_six():
    pass
"""


@pytest.mark.slow
def test_each_test_is_counted_once_and_what_is_skipped_for_want_of_a_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={tmp_path / 'it.xml'}", str(tmp_path)]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    outcomes, reasons = read_tally([tmp_path / "it.xml", tmp_path / "not there.xml"])
    assert last_line(outcomes, reasons) == "1 passed, 2 failed, 3 skipped (2 without MariaDB's server)"
    (tmp_path / "long.xml").write_text('<testsuites><testsuite time="90.0"/><testsuite time="60"/></testsuites>')
    took = part_minutes([tmp_path / "it.xml", tmp_path / "long.xml", tmp_path / "not there.xml"])
    assert (list(took), took["long"], 0 < took["it"] < 1) == (["long", "it"], 2.5, True)
    assert reasons == {"without MariaDB's server: no apt-get": 2, "asked for by a variable": 1}
