"""What a run took: by the lines that pytest's own process has written, and what is committed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run import record
from cdc_assets_tests.run.catalogue import ROOT
from cdc_assets_tests.run.page import summary
from cdc_assets_tests.run.record import Minutes, Took
from cdc_assets_tests.run.tally import last_line, told

TESTS = """
import time
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

def test_seven():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
"""


def lines_of(folder: Path, *options: str) -> Path:
    """What pytest writes of these tests."""
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "cdc_assets_tests.run.minutes", "-q"]
    command += [f"--minutes={folder / 'it.jsonl'}", "--rootdir", str(folder), *options, str(folder / "test_it.py")]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return folder / "it.jsonl"


@pytest.mark.slow
def test_each_test_is_counted_once_with_what_it_took(tmp_path: Path) -> None:
    minutes = record.measured("./cdc test", {"it": lines_of(tmp_path), "none": tmp_path / "not there.jsonl"})
    assert last_line(minutes) == "2 passed, 2 failed, 3 skipped (2 without MariaDB's server)"
    assert told(minutes.reasons) == [
        "skipped 1: asked for by a variable",
        "skipped 2: without MariaDB's server: no apt-get",
    ]
    [(name, took), *_] = minutes.worst(3)
    assert name == "test_it.py::test_seven"
    assert 0.4 < took.processor < 5
    assert minutes.files["test_it.py"].tests == minutes.parts["it"].tests == 7
    assert minutes.parts["it"].processor > took.processor
    assert minutes.parts["none"] == Took()


@pytest.mark.slow
def test_none_begins_that_would_end_behind_the_limit(tmp_path: Path) -> None:
    limit = tmp_path / "limit.json"
    limit.write_text(json.dumps({"until": 4e9, "seconds": {"test_it.py::test_seven": 4e9}}))
    minutes = record.measured("./cdc test", {"it": lines_of(tmp_path, f"--until={limit}")})
    assert last_line(minutes) == "1 passed, 2 failed, 3 skipped (2 without MariaDB's server)"
    assert "test_it.py::test_seven" not in minutes.tests


def test_of_a_test_that_was_played_again_the_later_file_counts(tmp_path: Path) -> None:
    for name, outcome in (("first", "failed"), ("again", "passed")):
        line = {"test": "a", "outcome": outcome, "call": 1.0, "processor": 2.0}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    minutes = record.measured("", {name: tmp_path / f"{name}.jsonl" for name in ("first", "again")})
    assert last_line(minutes) == "1 passed"


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    file.write_text('{"test": "a", "outcome": "passed"}\n{"test": "b", "outc')
    assert record.read_lines(file) == [{"test": "a", "outcome": "passed"}]


def test_a_part_that_has_grown_by_a_fifth_is_named() -> None:
    minutes = Minutes("./cdc test", "2026-11-29", parts={"live": Took(60, 130, 9), "rest": Took(9, 9, 9), "new": Took(9, 99, 9)})
    before = {"live": Took(60, 100, 9), "rest": Took(9, 4, 9)}
    assert record.growth(minutes, before) == [
        "live has grown: 130 processor seconds, 100 when they were recorded",
    ]
    assert "warning: live has grown: 130 processor seconds, 100 when they were recorded" in summary(minutes, before)
    assert record.growth(minutes, {"live": Took(60, 110, 9)}) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"tests": 4}', '{"parts": {"live": 4}}', '{"parts": {"live": {"hours": 1}}}'])
def test_a_broken_record_is_one_line_with_the_way(tmp_path: Path, text: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(text)
    with pytest.raises(
        CdcAssetsError, match=r"figures.json is no record of a run of the tests .*: rm .*, then run ./cdc test again"
    ):
        _read_all(file)


def _read_all(file: Path) -> None:
    record.read_passed(file)
    record.read_parts(file)


def test_two_branches_that_add_entries_meet_without_a_conflict() -> None:
    text = record.dumped({"run": {}, "tests": {"b": {"at": "2026-11-29"}, "a": {"at": ""}}})
    assert json.loads(text) == {"run": {}, "tests": {"a": {"at": ""}, "b": {"at": "2026-11-29"}}}
    assert [line for line in text.splitlines() if '"at"' in line] == ['  "a": {"at": ""},', '  "b": {"at": "2026-11-29"}']


def test_the_committed_figures_can_be_read() -> None:
    assert record.read_passed(record.COMMITTED), "run ./cdc test --rotate 10m, then ./cdc test --record"
    assert all(took.tests for took in record.read_parts().values())
