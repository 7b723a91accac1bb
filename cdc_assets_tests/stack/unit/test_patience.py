"""What a second without an answer weighs, and what a process asked of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from cdc_assets.stack.lifecycle import Patience, judge_patience
from cdc_assets.stack.processes import demand_between, demand_of, pressure


@pytest.mark.parametrize(
    ("share", "busy", "excused", "weight"),
    [
        (0.0, False, False, 1.0),
        (0.0, True, False, 0.25),
        (0.05, False, False, 1.0),
        (0.5, False, False, 0.1),
        (0.5, True, False, 0.0),
        (0.0, False, True, 0.0),
    ],
)
def test_time_without_an_answer_counts_by_what_the_process_does(share: float, busy: bool, excused: bool, weight: float) -> None:
    assert judge_patience(share, busy=busy, excused=excused)[0] == weight


def test_a_thread_that_began_since_counts_whole_and_one_that_ended_not_at_all() -> None:
    assert demand_between({(1, "1"): 5.0, (1, "2"): 7.0}, {(1, "1"): 5.5, (1, "3"): 0.25}) == 0.75


def test_a_process_that_spins_asks_for_cpu_with_its_children_and_one_that_sleeps_for_none() -> None:
    spin = f"import subprocess; subprocess.run([{sys.executable!r}, '-S', '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-S", "-c", spin]) as spinning, subprocess.Popen(["sleep", "600"]) as sleeping:
        try:
            asked = 0.0
            while asked < 0.5:
                asked = sum(demand_of(spinning.pid).values())
            assert sum(demand_of(sleeping.pid).values()) < 0.25
        finally:
            # On a busy machine the start of its interpreter may ask for as much: its child is ended whenever it comes.
            while spinning.poll() is None:
                for child in psutil.Process(spinning.pid).children():
                    child.kill()
                with suppress(subprocess.TimeoutExpired):
                    spinning.wait(0.1)
            sleeping.kill()
    assert demand_of(spinning.pid) == {}


def test_the_first_look_counts_nothing_and_pressure_is_a_share() -> None:
    patience = Patience()
    patience.look(os.getpid())
    assert patience.spent == 0.0
    assert pressure("cpu") is None or 0.0 <= pressure("cpu") <= 100.0
    assert pressure("no such resource") is None
