"""Rows of a snapshot against the changes before them, in the order of a topic."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as UNAVAILABLE_VALUE
from cdc_assets.capture.onboarding.topic_verification import LiveKeys, StaleRows

Row = dict[str, Any]
A: Row = {"id": 1, "v": "a", "big": "x"}
B: Row = {"id": 1, "v": "b", "big": "x"}
B_PART: Row = {"id": 1, "v": "b", "big": UNAVAILABLE_VALUE}


@pytest.mark.parametrize(
    ("records", "stale"),
    [
        ([("r", A)], False),
        ([("u", B), ("r", B)], False),
        ([("u", B), ("r", A)], True),
        ([("u", B_PART), ("r", B)], False),
        ([("u", B_PART), ("r", A)], True),
        ([("d", None), ("r", A)], True),
        ([("d", None), ("c", A), ("r", A)], False),
        ([("u", B), ("r", A), ("u", B)], False),
        ([("u", B), ("r", A), ("r", B)], False),
        ([("u", B), ("t", None), ("r", A)], False),
    ],
)
def test_a_row_must_hold_the_change_before_it(records: list[tuple[str, Row | None]], stale: bool) -> None:
    seen = StaleRows()
    for op, after in records:
        seen.see(op, b"1", after)
    assert bool(seen.keys) == stale


def test_a_key_without_an_event_of_this_onboarding_has_no_row() -> None:
    """The snapshot read the whole table: such a row was deleted while nobody captured it."""
    keys = LiveKeys()
    for op, key, own in (("c", b"1", False), ("c", b"2", False), ("c", b"3", False), ("r", b"1", True), ("d", b"3", True)):
        if own:
            keys.came(op, key, visible=True)
        keys.see(op, key, anchored=False, own=own)
    assert (keys.live(), keys.keys_without_row()) == ({b"1"}, {b"2"})


def test_what_came_after_the_count_tells_whether_there_was_a_row() -> None:
    keys = LiveKeys()
    for key in (b"deleted, made again later", b"updated later", b"deleted later", b"never again"):
        keys.see("c", key, anchored=False, own=False)
    for op, key in (
        ("c", b"deleted, made again later"),
        ("u", b"deleted, made again later"),
        ("u", b"updated later"),
        ("d", b"deleted later"),
    ):
        keys.came(op, key, visible=False)
    assert keys.live() == {b"updated later", b"deleted later"}
    assert keys.keys_without_row() == {b"deleted, made again later", b"never again"}
