"""What connectors tell of a snapshot that was begun and skipped at the next start."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from cdc_assets.capture.connectors.debezium_signals import KeptNotifications, Notification, in_order
from cdc_assets.proof.capture_flow import LostSnapshot, lost_snapshot
from cdc_assets_tests.support.notified import SCAN, said


def scan(at_ms: int, table: str = "public.a", of: str = "1") -> Notification:
    return said(SCAN, at_ms, table, 5, of=of)


def lost(told: Iterable[Notification], whole_since: int | None = 0) -> LostSnapshot:
    return lost_snapshot(KeptNotifications(in_order(told), whole_since))


HISTORIES = {
    "one that is under way": ([said("STARTED", 1)], 0),
    "killed before its first table": ([said("STARTED", 1), said("SKIPPED", 5)], 1),
    "failed there, or stopped": ([said("STARTED", 1), said("ABORTED", 2), said("SKIPPED", 5)], 1),
    "restarted ever since": ([said("STARTED", 1), said("SKIPPED", 5), said("SKIPPED", 9)], 1),
    "killed, and begun anew": (
        [said("STARTED", 1), said("STARTED", 3), said("IN_PROGRESS", 4), scan(5), said("COMPLETED", 6)],
        0,
    ),
    "killed in its tables, it begins anew": ([said("STARTED", 1), said("IN_PROGRESS", 2), said("STARTED", 5)], 0),
    "complete, and restarted": (
        [said("STARTED", 1), said("IN_PROGRESS", 2), scan(3), said("COMPLETED", 4), said("SKIPPED", 9)],
        0,
    ),
    "without tables": ([said("STARTED", 1), said("COMPLETED", 1), said("SKIPPED", 9)], 0),
    "by a signal that failed": ([said("STARTED", 1), said("IN_PROGRESS", 2), said("ABORTED", 3), said("SKIPPED", 9)], 0),
    "none was begun": ([said("SKIPPED", 9)], 0),
    "of another connector, which lives": ([said("STARTED", 1), said("SKIPPED", 2), said("IN_PROGRESS", 3), scan(4)], 0),
    "of another one, while one was lost": (
        [said("STARTED", 1), said("SKIPPED", 2), said("STARTED", 3), said("SKIPPED", 4), said("IN_PROGRESS", 5)],
        1,
    ),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_a_snapshot_is_lost_when_it_is_skipped_after_its_beginning(history: str) -> None:
    told, began = HISTORIES[history]
    for order in itertools.islice(itertools.permutations(told), 24):
        assert lost(order).began_ms == began


def test_a_table_that_was_read_whole_since_is_not_missed() -> None:
    begun = [said("STARTED", 1), said("SKIPPED", 5)]
    assert lost([*begun, scan(7, of="again-s-1-0a1b")]).read_ms == {"public.a": 7}
    assert lost([*begun, scan(7, of="onboard-1")]).read_ms == {"public.a": 7}
    assert lost([*begun, scan(7, of="heal-0a1b")]).read_ms == {}
    assert lost([*begun, said("STARTED", 6), said("IN_PROGRESS", 6), scan(7), said("COMPLETED", 8)]).read_ms == {"public.a": 7}


@pytest.mark.parametrize(("since", "began"), [(0, 2), (2, 2), (3, 0), (None, 0)])
def test_of_what_retention_has_cut_nothing_is_told(since: int | None, began: int) -> None:
    assert lost([said("STARTED", 2), said("SKIPPED", 5)], since).began_ms == began
