"""The loop of continuous mode, by the code and with the commits of the assets, without Dagster: passes while there is work,
a wait without cost while there is none, figures now and then.

Several sources stand side by side, each in a thread; one whose declaration changes goes on with the new one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cdc_assets.chain.continuous_source import WHOLE_SOURCE, CarriedPass, Failing, LanePlace, Pauses, SourceWork
from cdc_assets.chain.lag import TableLag, whole_lag
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import CdcAssetsError, RegistryError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.registry_copy import Stamps, stamps_of
from cdc_assets.registry.source_declaration import BaseSource, digest

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
    failing: Mapping[LanePlace, Failing] = field(default_factory=dict)

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
        self._appended += sum(news.added for news in done.appended)
        self._folded += sum(news.events for news in done.folded)
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
        figures = StreamFigures(now - self._told_at, self._appended, self._folded, lag, tables, failing)
        self._told_at, self._appended, self._folded = now, 0, 0
        return figures


def is_done(figures: StreamFigures) -> bool:
    """Every table is caught up, or has failed often enough; so has the whole source, if nothing of it can be asked."""
    if not all(failure.is_lasting for failure in figures.failing.values()):
        return False
    if WHOLE_SOURCE in figures.failing:
        return True
    failing = {table for _, table in figures.failing}
    return bool(figures.tables) and all(lag.records == 0 for short, lag in figures.tables.items() if short not in failing)


_CLOSE_SECONDS = 60.0
_FILES_SECONDS = 2.0


@dataclass(frozen=True)
class StreamVoice:
    """Whom the streams tell, from whatever thread: of a source its lines and its figures."""

    say: Callable[[str, str], None]
    figures: Callable[[str, StreamFigures], None]
    every: float = 5.0


class _Thread(threading.Thread):
    """One source, until it is stopped or its declaration is another one."""

    def __init__(self, platform: Platform, source: BaseSource, voice: StreamVoice, until_caught_up: bool) -> None:
        super().__init__(name=source.name, daemon=True)
        self.source, self.over = source, threading.Event()
        self.last: StreamFigures | None = None
        self.crash: Exception | None = None
        self._platform, self._voice, self._until = platform, voice, until_caught_up

    def run(self) -> None:
        """The loop; what it raises is kept for whoever started it."""
        name = self.source.name
        listener = Listener(
            is_over=self.over.is_set,
            tell_figures=lambda figures: self._voice.figures(name, figures),
            say=lambda text: self._voice.say(name, text),
            every=self._voice.every,
        )
        try:
            with open_work(Chain(self._platform, self.source), listener.say) as carried_source:
                self.last = ContinuousLoop(carried_source, listener).run(until_caught_up=self._until)
        except Exception as error:  # noqa: BLE001 - raised again where the thread is joined
            self.crash = error


@contextmanager
def open_work(chain: Chain[BaseSource], say: Callable[[str], None]) -> Iterator[SourceWork]:
    """A source's work; at the end what is under way ends, or is left to Spark."""
    carried_source = SourceWork(chain.platform, chain.source, say)
    try:
        yield carried_source
    finally:
        if not carried_source.close(_CLOSE_SECONDS):
            say("a fold is left to Spark: its commit may still come, and nothing is lost or done twice by that")


class Streams:
    """The chosen sources of a registry folder."""

    def __init__(self, platform: Platform, sources: Iterable[BaseSource], voice: StreamVoice, *, until_caught_up: bool) -> None:
        self._platform, self._voice, self._until = platform, voice, until_caught_up
        self._threads = {source.name: self._start(source) for source in sources}
        self._stamps: Stamps = ()

    def run(self, stop: threading.Event, folder: Path) -> Mapping[str, StreamFigures]:
        """Until `stop`, or until all are caught up where that was asked for: the last figures of each source.
        Raises Exception: as a loop has raised it; the others have ended then, too."""
        while not stop.wait(_FILES_SECONDS if self._is_alive() else 0) and self._is_alive():
            if any(thread.crash for thread in self._threads.values()):
                break
            self._take_in(folder)
        return self._end()

    def _is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads.values())

    def _start(self, source: BaseSource) -> _Thread:
        thread = _Thread(self._platform, source, self._voice, self._until)
        thread.start()
        return thread

    def _take_in(self, folder: Path) -> None:
        """What the registry says by now, where its files have changed; while it is broken, what it said before goes on."""
        stamps = stamps_of(folder)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            declared = {source.name: source for source in load_sources(folder)}
        except RegistryError as error:
            self._voice.say("registry", f"is broken, what was loaded before goes on: {error}")
            return
        for name, thread in self._threads.items():
            if not thread.is_alive() or (name in declared and digest(declared[name]) == digest(thread.source)):
                continue
            thread.over.set()
            thread.join()
            if name in declared:
                self._voice.say(name, "goes on as it is declared now")
                self._threads[name] = self._start(declared[name])
            else:
                self._voice.say(name, "is declared no longer, and ends")

    def _end(self) -> dict[str, StreamFigures]:
        for thread in self._threads.values():
            thread.over.set()
        for thread in self._threads.values():
            thread.join()
        for thread in self._threads.values():
            if thread.crash:
                raise thread.crash
        return {name: thread.last for name, thread in self._threads.items() if thread.last}
