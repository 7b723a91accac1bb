"""Which tests a run plays beside the core."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run import rotation
from cdc_assets_tests.run.__main__ import main
from cdc_assets_tests.run.catalogue import Test


def named(name: str, file: str = "test_a.py", part: str = "spark") -> Test:
    return Test(f"{file}::{name}", part, is_core=False, is_fast=False)


def test_a_time_is_written_with_its_unit() -> None:
    assert [rotation.duration(text) for text in ("90s", "10m", "1h")] == [90, 600, 3600]
    for text in ("10", "m", "ten minutes", "-3m", "1.5m"):
        with pytest.raises(CdcAssetsError, match="is no time: write minutes as 10m"):
            rotation.duration(text)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seed", "x"], "cdc: the seed 'x' is no number: write --seed 437624, as the run has printed it"),
        (["--rotate", "soon"], "cdc: 'soon' is no time: write minutes as 10m (or 90s, 1h)"),
        (["--part=chain"], "cdc: there is no part 'chain' of the tests: live, stack, spark, hostile, breaking, rest"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"{line}\n"


def test_what_has_waited_longest_comes_first_and_a_file_stays_together() -> None:
    tests = [named(str(at), f"test_{at % 3}.py") for at in range(9)]
    passed = {test.id: {"at": "2026-11-02T09:00:00"} for test in tests if test.file != "test_2.py"}
    passed["test_0.py::0"] = {"at": "2026-11-01T23:00:00"}
    order = [test.id for [test] in rotation.waited(tests, passed, seed=1)]
    assert order[:4] == ["test_2.py::2", "test_2.py::5", "test_2.py::8", "test_0.py::0"]
    files = [name.partition("::")[0] for name in order[4:]]
    assert files in (["test_0.py"] * 2 + ["test_1.py"] * 3, ["test_1.py"] * 3 + ["test_0.py"] * 2)
    orders = {tuple(test.id for [test] in rotation.waited(tests, {}, seed)) for seed in range(40)}
    assert len(orders) == 6, "each order of three files"


def test_a_file_whose_tests_may_need_each_other_is_played_whole() -> None:
    tests = [named(name, file, "live") for file in ("test_a.py", "test_b.py") for name in "abc"]
    passed = {test.id: {"at": "2026-11-02"} for test in tests if test.id != "test_b.py::c"}
    waiting = rotation.waited(tests, passed, seed=1)
    assert [[test.id[-1] for test in group] for group in waiting] == [["a", "b", "c"]] * 2
    assert waiting[0][0].file == "test_b.py"
    seconds = {test.id: 40.0 for test in tests}
    assert rotation.chosen(waiting, seconds, 130, 2) == waiting
    assert rotation.chosen(waiting, seconds, 100, 2) == waiting[:1]


@given(st.lists(st.floats(1, 400), min_size=1, max_size=60), st.integers(0, 10**6))
def test_each_test_comes_in_as_many_runs_as_its_seconds_need(took: list[float], seed: int) -> None:
    """What a run has played waits longest afterwards, so nobody waits for ever: each run's day is a later one."""
    tests = [named(str(at), f"test_{at % 7}.py") for at in range(len(took))]
    seconds = {test.id: each for test, each in zip(tests, took, strict=True)}
    budget, at_a_time = 200.0, 2
    passed: dict[str, dict[str, str]] = {}
    # At least half of the budget is used by each run but the last, unless one test alone is longer than it.
    needed = int(2 * sum(min(each, budget) for each in took) / budget) + len(took) // 2 + 2
    for day in range(needed):
        for [test] in rotation.chosen(rotation.waited(tests, passed, seed + day), seconds, budget, at_a_time):
            passed[test.id] = {"at": f"{2000 + day:04}-01-01"}
    assert set(passed) == set(seconds)


def test_the_budget_is_kept_and_one_is_played_in_any_case() -> None:
    tests = [named(str(at)) for at in range(5)]
    seconds = dict(zip([test.id for test in tests], [50, 30, 90, 20, 40], strict=True))
    waiting = [[test] for test in tests]
    assert [test.id[-1] for [test] in rotation.chosen(waiting, seconds, 50, 2)] == ["0", "1", "3"]
    assert [test.id[-1] for [test] in rotation.chosen(waiting, seconds, 10, 2)] == ["0"]


def test_a_run_that_may_take_no_longer_leaves_its_rotation_what_is_left() -> None:
    assert rotation.budget_left(600, None, 9000) == 600
    assert [rotation.budget_left(600, 3600, passed) for passed in (1000, 3200, 3541, 5000)] == [600, 400, 0, 0]


def test_what_nobody_has_recorded_is_estimated() -> None:
    fast = Test("test_b.py::quick", "rest", is_core=True, is_fast=True)
    passed = {"test_a.py::known": {"at": "2026-11-02", "seconds": 77.0, "processor": 3.0}}
    estimates = rotation.estimates([named("known"), named("new"), fast], passed)
    assert estimates == {"test_a.py::known": 77.0, "test_a.py::new": 10.0, "test_b.py::quick": 0.05}


def test_the_oldest_are_told_by_their_days() -> None:
    tests = [named(name) for name in "abc"]
    random.Random(3).shuffle(tests)
    passed = {"test_a.py::a": {"at": "2026-11-02T00:00:00"}, "test_a.py::b": {"at": "2026-10-02T00:00:00"}}
    assert rotation.oldest(tests, passed, 2) == [("never", "test_a.py::c"), ("2026-10-02", "test_a.py::b")]
