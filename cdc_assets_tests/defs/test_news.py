"""What a sensor tick requests, from random states: nothing twice, nothing forgotten, no table held up by another."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.defs.offsets_sensor import Request, TableNews, Waiting, decide, decide_backups
from cdc_assets.registry.source_settings import Batching

BATCHING = Batching(min_records=10, max_delay=timedelta(seconds=5), max_records=30)
TABLES = ("a", "b", "c", "d")
news_lists = st.lists(
    st.builds(
        TableNews,
        table=st.sampled_from(TABLES),
        waiting=st.integers(0, 50),
        silver_behind=st.booleans(),
        backup_behind=st.booleans(),
    ),
    unique_by=lambda n: n.table,
)


def tick(news: list[TableNews], busy: frozenset[str] = frozenset(), waiting: Waiting | None = None, now: float = 100.0):
    return decide(news, busy=busy, waiting=waiting or Waiting(), now=now, batching=BATCHING)


@given(news_lists, st.frozensets(st.sampled_from(TABLES)))
def test_a_table_is_requested_at_most_once_and_never_while_busy(news: list[TableNews], busy: frozenset[str]) -> None:
    requests, _ = tick(news, busy)
    asked = [table for request in requests for table in request.tables]
    assert len(asked) == len(set(asked))
    assert not set(asked) & busy


@given(news_lists)
def test_whatever_waits_is_requested_after_max_delay(news: list[TableNews]) -> None:
    _, waiting = tick(news, now=100.0)
    requests, _ = tick(news, waiting=waiting, now=105.0)
    asked = {table for request in requests for table in request.tables}
    first, _ = tick(news, now=100.0)
    asked |= {table for request in first for table in request.tables}
    assert {n.table for n in news if n.waiting} <= asked


@given(news_lists)
def test_a_backlog_runs_alone(news: list[TableNews]) -> None:
    requests, _ = tick(news)
    large = {n.table for n in news if n.waiting > 30}
    for request in requests:
        if set(request.tables) & large:
            assert len(request.tables) == 1


@given(news_lists, st.dictionaries(st.sampled_from(TABLES), st.floats(0, 99)))
def test_a_lost_cursor_loses_no_table(news: list[TableNews], since: dict[str, float]) -> None:
    with_cursor, _ = tick(news, waiting=Waiting(since))
    without, waiting = tick(news, waiting=Waiting())
    later, _ = tick(news, waiting=waiting, now=200.0)
    asked = {t for r in (*without, *later) for t in r.tables}
    assert {t for r in with_cursor for t in r.tables} <= asked


def test_small_news_waits_for_company() -> None:
    requests, waiting = tick([TableNews("a", 3)])
    assert requests == ()
    assert waiting.since == {"a": 100.0}
    requests, waiting = tick([TableNews("a", 3), TableNews("b", 8)], waiting=waiting, now=105.0)
    assert requests == (Request(("a", "b"), "up to 11 new records"),)
    assert waiting.since == {}


def test_no_news_no_request() -> None:
    assert tick([TableNews("a", 0)]) == ((), Waiting({}))


@given(news_lists, st.frozensets(st.sampled_from(TABLES)), st.frozensets(st.sampled_from(TABLES)))
def test_each_backup_that_is_behind_is_requested_once(news: list[TableNews], busy: frozenset[str], alone: frozenset[str]) -> None:
    requests = decide_backups(news, busy=busy, alone=alone)
    asked = [table for request in requests for table in request.tables]
    assert sorted(asked) == sorted(n.table for n in news if n.backup_behind and n.table not in busy)
    assert all(len(request.tables) == 1 for request in requests if set(request.tables) & alone)
    assert len(requests) <= 1 + len(alone)
