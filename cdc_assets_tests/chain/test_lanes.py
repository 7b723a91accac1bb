"""Work in threads of its own: what it answers and raises, and that nobody waits for it longer than asked."""

from __future__ import annotations

import threading

import pytest

from cdc_assets.chain.continuous_source import Lanes

A, B = ("silver", "a"), ("silver", "b")


def test_answers_are_taken_once_and_errors_are_answers() -> None:
    lanes: Lanes[str] = Lanes(most=2)

    def broken() -> str:
        raise ValueError("no such column")

    lanes.start(A, lambda: "done")
    lanes.start(B, broken)
    assert lanes.join(10)
    assert (lanes.is_full, lanes.has_ended, lanes.places) == (True, True, {A, B})
    taken = lanes.take()
    assert taken[A] == "done"
    assert isinstance(taken[B], ValueError)
    assert (lanes.take(), lanes.places, lanes.is_full, lanes.has_ended) == ({}, frozenset(), False, False)


@pytest.mark.parametrize("ends", [True, False])
def test_whoever_waits_knows_whether_it_ended(ends: bool) -> None:
    go_on, lanes = threading.Event(), Lanes[str]()
    lanes.start(A, lambda: str(go_on.wait(30)))
    if ends:
        go_on.set()
    assert lanes.join(10 if ends else 0.05) is ends
    go_on.set()
    assert lanes.join(10)
