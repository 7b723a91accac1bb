"""The loop alone, with work and a clock of the test's own: when it waits, what it tells, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc_assets.chain.continuous_loop import LOOK_SECONDS, PACE_SECONDS, ContinuousLoop, Listener, StreamFigures
from cdc_assets.chain.continuous_source import FOR_GOOD, WHOLE_SOURCE, CarriedPass, Pauses
from cdc_assets.chain.lag import TableLag, whole_lag
from cdc_assets.registry.errors import ServiceError

IDLE, MORE, BUSY = CarriedPass(), CarriedPass(more=True), CarriedPass(busy=True)


@dataclass
class Added:
    added: int


@dataclass
class Folds:
    events: int


@dataclass
class ScriptedWork:
    """Passes one after the other, idle ones at the end; its clock moves only while somebody waits."""

    passes: list[CarriedPass | Exception]
    behind: Mapping[str, TableLag] = field(default_factory=lambda: {"city": TableLag(0)})
    now: float = 1000.0
    began: list[float] = field(default_factory=list)
    news_at: float = float("inf")

    def __post_init__(self) -> None:
        self.pauses = Pauses(self.clock)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def carry(self) -> CarriedPass:
        self.began.append(self.now)
        done = self.passes.pop(0) if self.passes else IDLE
        if isinstance(done, Exception):
            raise done
        return done

    def wait(self, seconds: float) -> bool:
        if self.now <= self.news_at < self.now + seconds:
            self.now, self.news_at = self.news_at, float("inf")
            return True
        self.now += seconds
        return False

    def lags(self) -> Mapping[str, TableLag]:
        return self.behind


def moved(appended: int, folded: int, **more: Any) -> CarriedPass:
    done: Any = CarriedPass(**more)
    done.appended.append(Added(appended))
    done.folded.append(Folds(folded))
    found: CarriedPass = done
    return found


def played(work: ScriptedWork, passes: int, *, every: float = 5.0) -> tuple[list[float], list[StreamFigures], list[str]]:
    """Seconds between the beginnings of so many passes, figures and lines."""
    figures: list[StreamFigures] = []
    lines: list[str] = []
    listener = Listener(lambda: len(work.began) >= passes, tell_figures=figures.append, say=lines.append, every=every)
    ContinuousLoop(work, listener, clock=work.clock, sleep=work.sleep).run()
    return [round(b - a, 2) for a, b in zip(work.began, work.began[1:], strict=False)], figures, lines


def test_a_backlog_is_worked_without_a_wait_and_a_trickle_at_a_pace() -> None:
    assert played(ScriptedWork([MORE, MORE, moved(1, 1)]), 4)[0] == pytest.approx([0, 0, PACE_SECONDS], abs=0.06)
    assert played(ScriptedWork([BUSY, BUSY]), 3)[0] == pytest.approx([PACE_SECONDS, PACE_SECONDS], abs=0.06)


def test_idle_it_waits_for_news_and_looks_now_and_then() -> None:
    assert played(ScriptedWork([]), 3)[0] == [LOOK_SECONDS, LOOK_SECONDS]
    assert played(ScriptedWork([], news_at=1001.3), 2)[0] == [1.3]


def test_idle_it_wakes_when_a_pause_ends() -> None:
    work = ScriptedWork([])
    work.pauses.note_failure(("silver", "city"), "no rows")
    assert played(work, 2)[0] == [1.0]


def test_what_nothing_can_be_asked_of_rests_longer_each_time() -> None:
    work = ScriptedWork([ServiceError("away")] * 3)
    waited, _, lines = played(work, 5)
    assert waited[:3] == pytest.approx([1.0, 2.0, 4.0], abs=0.06)
    assert lines == [f"the pass failed, again in {n} s: away" for n in (1, 2, 4)]
    assert WHOLE_SOURCE not in work.pauses.failing


def test_throughput_and_lag_are_told_and_an_idle_loop_is_quiet() -> None:
    behind = {"city": TableLag(7, 2.5), "country": TableLag(1, None)}
    work = ScriptedWork([moved(30, 20) for _ in range(10)], behind)
    _, figures, _ = played(work, 60)
    first = figures[0]
    assert (first.appended, first.folded) == (30 * 10, 20 * 10)
    assert first.seconds == pytest.approx(5, abs=0.6)
    assert first.records_per_second == first.folded / first.seconds
    assert first.lag == TableLag(8, 2.5)
    assert not first.is_caught_up
    idle = ScriptedWork([moved(3, 3)])
    _, figures, _ = played(idle, 60)
    # Once what was done, once that there is no more.
    assert [each.folded for each in figures] == [3, 0]
    assert figures[-1].is_caught_up


def until_caught_up(work: ScriptedWork, after: Callable[[], None] = lambda: None) -> tuple[StreamFigures, int]:
    listener = Listener(lambda: len(work.began) > 200, tell_pass=lambda _: after())
    found = ContinuousLoop(work, listener, clock=work.clock, sleep=work.sleep).run(until_caught_up=True)
    return found, len(work.began)


def test_until_caught_up_ends_with_the_last_record_and_not_before() -> None:
    work = ScriptedWork([MORE, moved(5, 5), IDLE], {"city": TableLag(2)})

    def settle() -> None:
        if len(work.began) == 5:
            work.behind = {"city": TableLag(0)}

    found, passes = until_caught_up(work, settle)
    assert (found.is_caught_up, passes) == (True, 5)


def test_a_table_that_fails_for_good_ends_it_once_the_others_are_done() -> None:
    work = ScriptedWork([], {"city": TableLag(9), "country": TableLag(0)})

    def fail() -> None:
        if work.pauses.is_due(("silver", "city")):
            work.pauses.note_failure(("silver", "city"), "no rows")

    found, _ = until_caught_up(work, fail)
    assert [each.times for each in found.failing.values()] == [FOR_GOOD]
    assert found.lag.records == 9


def test_a_source_of_which_nothing_can_be_asked_ends_it_too() -> None:
    found, _ = until_caught_up(ScriptedWork([ServiceError("away")] * 50))
    assert found.failing[WHOLE_SOURCE].times == FOR_GOOD


def test_a_lag_of_unknown_age_is_not_zero() -> None:
    assert whole_lag({"a": TableLag(1, None)}) == TableLag(1, None)
    assert whole_lag({"a": TableLag(0, None), "b": TableLag(0, 0.0)}) == TableLag(0, 0.0)
