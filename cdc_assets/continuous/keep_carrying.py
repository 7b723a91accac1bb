"""The loop of continuous mode: passes while there is work, a wait without cost while there is none, figures now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdc_assets.continuous.lag import TableLag, whole_lag
from cdc_assets.continuous.pauses import WHOLE_SOURCE, Failing, Pauses, Place
from cdc_assets.continuous.source_work import CarriedPass
from cdc_assets.errors import CdcAssetsError

PACE_SECONDS = 0.5
"""Two passes begin at least so far apart, unless a batch more is waiting: each makes commits of its own."""
LOOK_SECONDS = 5.0
"""An idle loop looks again after so long, for what no record tells: a topic made anew, a bronze that somebody else filled."""
_STOP_SECONDS = 0.25


class Work(Protocol):
    """What is carried: source_work.SourceWork."""

    pauses: Pauses

    def carry(self) -> CarriedPass:
        """One pass over all tables."""

    def wait(self, seconds: float) -> bool:
        """Whether there may be something new, as soon as there is."""

    def lags(self) -> Mapping[str, TableLag]:
        """How far silver is behind, by table."""


@dataclass(frozen=True)
class StreamFigures:
    """What a loop has done in so many seconds, how far silver is behind now, and what fails."""

    seconds: float
    appended: int
    folded: int
    lag: TableLag
    tables: Mapping[str, TableLag] = field(default_factory=dict)
    failing: Mapping[Place, Failing] = field(default_factory=dict)

    @property
    def records_per_second(self) -> float:
        """That were folded into silver."""
        return self.folded / self.seconds if self.seconds else 0.0

    @property
    def is_caught_up(self) -> bool:
        """Nothing is behind, nothing fails."""
        return bool(self.tables) and not self.lag.records and not self.failing


@dataclass
class Listener:
    """Whom the loop tells, and who says that it is over; each is called by the loop's thread."""

    is_over: Callable[[], bool]
    tell_pass: Callable[[CarriedPass], None] = lambda _: None
    tell_figures: Callable[[StreamFigures], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    every: float = 5.0
    """Seconds between two figures."""


class ContinuousLoop:
    """Passes over one source until its listener says that it is over."""

    def __init__(
        self,
        work: Work,
        listener: Listener,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._work, self._listener, self._clock, self._sleep = work, listener, clock, sleep
        self._told_at, self._appended, self._folded = clock(), 0, 0
        self._is_quiet = False

    def run(self, *, until_caught_up: bool = False) -> StreamFigures:
        """The last figures: with `until_caught_up` those of the moment when all was done that could be, else of its end."""
        while not self._listener.is_over():
            began = self._clock()
            done = self._pass()
            if until_caught_up and (done is None or done.is_idle):
                figures = self._figures()
                if is_done(figures):
                    self._listener.tell_figures(figures)
                    return figures
            self._tell_in_time(done)
            self._rest(done, began)
        return self._figures()

    def _pass(self) -> CarriedPass | None:
        """None: it ended by an error of the whole source, which rests."""
        try:
            done = self._work.carry()
        except CdcAssetsError as error:
            failing = self._work.pauses.note_failure(WHOLE_SOURCE, str(error))
            self._listener.say(f"the pass failed, again in {failing.pause:.0f} s: {error}")
            return None
        self._work.pauses.note_success(WHOLE_SOURCE)
        self._appended += sum(each.added for each in done.appended)
        self._folded += sum(each.events for each in done.folded)
        self._is_quiet = self._is_quiet and done.is_idle
        self._listener.tell_pass(done)
        return done

    def _rest(self, done: CarriedPass | None, began: float) -> None:
        """Until the next pass is worth it."""
        pauses = self._work.pauses
        if done is None:
            self._await(lambda: pauses.is_due(WHOLE_SOURCE), sleep=True)
        elif done.is_idle:
            until = min([self._clock() + LOOK_SECONDS, *(f.until for f in pauses.failing.values())])
            self._await(lambda: self._clock() >= until)
        elif not done.more:
            self._await(lambda: self._clock() >= began + PACE_SECONDS, sleep=True)

    def _await(self, is_time: Callable[[], bool], *, sleep: bool = False) -> None:
        """`sleep`: also where something new comes."""
        while not self._listener.is_over() and not is_time():
            if sleep:
                self._sleep(_STOP_SECONDS / 5)
            elif self._work.wait(_STOP_SECONDS):
                return

    def _tell_in_time(self, done: CarriedPass | None) -> None:
        """Figures at their time; an idle loop has told that it is caught up, and says no more."""
        if self._clock() - self._told_at < self._listener.every or (self._is_quiet and done is not None):
            return
        figures = self._figures()
        self._is_quiet = figures.is_caught_up and not figures.folded and not figures.appended
        self._listener.tell_figures(figures)

    def _figures(self) -> StreamFigures:
        now = self._clock()
        try:
            tables = self._work.lags()
        except CdcAssetsError:
            # Whatever it is, the next pass meets it, and tells it.
            tables = {}
        lag = whole_lag(tables) if tables else TableLag(0, None)
        failing = self._work.pauses.failing
        found = StreamFigures(now - self._told_at, self._appended, self._folded, lag, tables, failing)
        self._told_at, self._appended, self._folded = now, 0, 0
        return found


def is_done(figures: StreamFigures) -> bool:
    """Every table is caught up, or has failed often enough; so has the whole source, if nothing of it can be asked."""
    if not all(each.is_lasting for each in figures.failing.values()):
        return False
    if WHOLE_SOURCE in figures.failing:
        return True
    failing = {table for _, table in figures.failing}
    return bool(figures.tables) and all(lag.records == 0 for short, lag in figures.tables.items() if short not in failing)
