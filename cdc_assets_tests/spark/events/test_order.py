"""The reasoning about positions alone, on thousands of histories: the newest event by position is the truth.

`position` here is written a second time, in plain Python, from the table in ADR 0003; test_positions compares both.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_assets_tests.support.histories.acts import ACTS, WRITES, play
from cdc_assets_tests.support.lake.capture import Connector

STEP = st.tuples(st.sampled_from(ACTS), st.sampled_from(WRITES), st.integers(0, 2), st.integers(0, 5), st.integers(0, 5))


def positions(connector: Connector) -> list[tuple[tuple[int, int, int, int], int, dict | None]]:
    """(anchor, kind, lsn, offset), key and after-image of every event that the connector sent."""
    found, snapshot = [], 0
    for record in connector.records:
        if record.value is None:
            continue
        value = json.loads(record.value)
        commit, lsn = json.loads(value["source"]["sequence"])
        lsn = int(lsn)
        if commit is None and value["op"] == "r":
            snapshot = max(snapshot, lsn)
        anchor = int(commit) if commit is not None else max(lsn, snapshot)
        key = json.loads(record.key or "{}")["id"]
        found.append(((anchor, 0 if value["op"] == "r" else 1, lsn, record.offset), key, value["after"]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("times", [300, pytest.param(1500, marks=pytest.mark.all)])
def test_the_highest_position_of_a_key_is_its_state(times: int) -> None:
    @settings(max_examples=times, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(steps=st.lists(STEP, min_size=10, max_size=80), order=st.randoms(use_true_random=False))
    def holds(steps: list, order) -> None:
        newest_is_the_state(steps, order)

    holds()


def newest_is_the_state(steps: list, order) -> None:
    database, connector = play(steps, first_key=0)
    events = positions(connector)
    order.shuffle(events)
    newest: dict[int, tuple] = {}
    for place, key, after in events:
        if key not in newest or place > newest[key][0]:
            newest[key] = (place, after)
    assert {key: after for key, (_, after) in newest.items() if after is not None} == database.rows
