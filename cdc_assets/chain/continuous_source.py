"""One source, carried pass after pass: what has news goes to bronze, what silver lacks is folded, what fails rests.

Work that may take long has a thread of its own. Pauses after failures are each table's own: 1, 2, 4 … at most 60 s, and
none after a success.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from cdc_assets.chain.bronze_append import AppendedTable, look
from cdc_assets.chain.continuous_passes import (
    BronzePass,
    FoldedTable,
    append_once,
    fold_once,
    read_again,
    tell_troubles,
    waiting_records,
)
from cdc_assets.chain.lag import TableLag, lags, records_behind
from cdc_assets.chain.offset_ranges import TopicWatch
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, TableBusyError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import Committed

LanePlace = tuple[str, str]
"""`(layer, table)`; the table is empty for the whole source."""
WHOLE_SOURCE: LanePlace = ("source", "")
FOR_GOOD = 5
"""So many failures in a row, and it is no hiccup."""
_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True)
class Failing:
    """A place that failed last: how often in a row, why, for how long (seconds) it rests, and until when of the clock."""

    times: int
    reason: str
    pause: float
    until: float

    @property
    def is_lasting(self) -> bool:
        """Whether it has failed often enough to be told as more than a hiccup."""
        return self.times >= FOR_GOOD


class Pauses:
    """What failed, and when it is tried again. One thread's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[LanePlace, Failing] = {}

    @property
    def failing(self) -> Mapping[LanePlace, Failing]:
        """What failed when it was tried last."""
        return dict(self._failing)

    def is_due(self, place: LanePlace) -> bool:
        """Whether it may be tried: it never failed, or has rested."""
        failing = self._failing.get(place)
        return failing is None or self._clock() >= failing.until

    def note_failure(self, place: LanePlace, reason: str) -> Failing:
        """The pause that begins now."""
        times = self._failing[place].times + 1 if place in self._failing else 1
        # The exponent is bounded: 2 ** 1100 is no float.
        pause = min(_FIRST_SECONDS * 2 ** min(times - 1, 10), _LONGEST_SECONDS)
        failing = self._failing[place] = Failing(times, reason, pause, self._clock() + pause)
        return failing

    def note_success(self, place: LanePlace) -> bool:
        """True: it had failed before."""
        return self._failing.pop(place, None) is not None


Answer = TypeVar("Answer")


class Lanes(Generic[Answer]):
    """At most so many at a time. The threads are daemons: a process that ends does not wait for what Spark is still doing."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._threads: dict[LanePlace, threading.Thread] = {}
        self._done: dict[LanePlace, Answer | Exception] = {}

    @property
    def places(self) -> frozenset[LanePlace]:
        """What is under way, or done and not taken."""
        return frozenset(self._threads)

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer to take."""
        return any(not thread.is_alive() for thread in self._threads.values())

    @property
    def is_full(self) -> bool:
        """Whether the next one has to wait."""
        return len(self._threads) >= self._most

    def start(self, place: LanePlace, work: Callable[[], Answer]) -> None:
        """Begin; the place must not be under way."""

        def lane() -> None:
            try:
                self._done[place] = work()
            except Exception as error:  # noqa: BLE001 - whoever takes the answer tells it
                self._done[place] = error

        thread = threading.Thread(target=lane, name="/".join(place), daemon=True)
        self._threads[place] = thread
        thread.start()

    def take(self) -> dict[LanePlace, Answer | Exception]:
        """What has ended since the last time: its answer, or what it raised."""
        ended = [lane for lane, thread in self._threads.items() if not thread.is_alive()]
        for lane in ended:
            del self._threads[lane]
        return {lane: self._done.pop(lane) for lane in ended}

    def join(self, seconds: float) -> bool:
        """Wait for all of them, so long at most; whether all have ended."""
        until = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads.values())


_LANE_LOOK_SECONDS = 0.1
_MOST_TOLD = 200


@dataclass
class CarriedPass:
    """What a pass has done, and whether the next one has something to do at once."""

    appended: list[AppendedTable] = field(default_factory=list)
    folded: list[FoldedTable] = field(default_factory=list)
    more: bool = False
    busy: bool = False
    """A table is held by somebody else, or is under way in a lane: it is looked at again soon."""

    @property
    def is_idle(self) -> bool:
        """There was nothing to do, as far as nothing fails."""
        return not (self.appended or self.folded or self.more or self.busy)


class SourceWork:
    """One thread's; close it at the end.

    Whatever is decided here is decided by Kafka and the Delta logs as they are, so a pass may end anywhere, by a kill too, and
    runs of Dagster may come between: what they did is not done again, and what is left undone the next pass does.
    """

    def __init__(self, platform: Platform, source: BaseSource, say: Say, news: TopicWatch | None = None) -> None:
        """`say` is told of failures, and once of what is worth a line; `news` is who waits for records, by default at Kafka."""
        self.source, self.pauses = source, Pauses()
        self._platform, self._say = platform, say
        self._told: set[str] = set()
        self._news = news or TopicWatch(platform.lake_kafka())
        self._lanes: Lanes[list[AppendedTable] | list[FoldedTable]] = Lanes()
        self._since: dict[str, float] = {}
        self._folded_at: dict[str, float] = {}
        self._woken = False

    def carry(self) -> CarriedPass:
        """One pass over all tables that are due. Raises CdcAssetsError: Kafka or Spark cannot be asked."""
        done = CarriedPass()
        self._take_lanes(done)
        self._append(done)
        self._fold(done)
        done.busy = done.busy or bool(self._lanes.places)
        return done

    def wait(self, seconds: float) -> bool:
        """True as soon as a topic has something new or a lane has ended; False when the time is over."""
        until = time.monotonic() + seconds
        while not self._woken and not self._lanes.has_ended and (left := until - time.monotonic()) > 0:
            self._woken = self._news.wait(min(left, _LANE_LOOK_SECONDS) if self._lanes.places else left)
        return self._woken or self._lanes.has_ended

    def lags(self) -> Mapping[str, TableLag]:
        """How far silver is behind, by table."""
        return lags(Chain(self._platform, self.source))

    def close(self, seconds: float = 60.0) -> bool:
        """Let what is under way end, so long at most; False: it goes on in Spark, and its commit may come."""
        self._news.close()
        return self._lanes.join(seconds)

    def _append(self, done: CarriedPass) -> None:
        due = [table for table in self.source.tables if self._may("bronze", table) and not self._is_full(table)]
        plan = look(Chain(self._platform, self.source), due)
        waiting, woken, self._woken = waiting_records(self.source, plan), self._woken, False
        ends = {topic: piece.state.kafka_ends for topic, piece in plan.slices.items()}
        # Woken for nothing: the consumer is still reading what bronze has long read.
        self._news.watch(ends, jump=woken and not waiting)
        result, ready = BronzePass(), self._ready(waiting)
        if ready:
            result = append_once(Chain(self._platform, self.source), [self.source.table(short) for short in ready], self._note)
        tell_troubles(self.source, due, plan, result)
        for piece in plan.slices.values():
            if (short := names.table_name(piece.table)) not in waiting:
                self._settle("bronze", short)
        self._close_gaps(result.gaps)
        self._note_failures("bronze", result.failed)
        self._add(done, result.done)
        done.more = done.more or result.more
        done.busy = done.busy or bool(result.busy)

    def _ready(self, waiting: Mapping[str, int]) -> list[str]:
        """All that wait, where one has enough for a batch or has waited long enough (`batching`); else none."""
        now, batching = time.monotonic(), self.source.batching
        self._since = {short: self._since.get(short, now) for short in waiting}
        longest = batching.max_delay.total_seconds()
        due = any(n >= batching.min_records or now - self._since[short] >= longest for short, n in waiting.items())
        return list(waiting) if due else []

    def _close_gaps(self, gaps: Mapping[str, str]) -> None:
        for short in gaps:
            if not self._lanes.is_full:
                again = partial(read_again, Chain(self._platform, self.source), self.source.table(short), self._say)
                self._lanes.start(("bronze", short), again)

    def _fold(self, done: CarriedPass) -> None:
        committed = bronze_committed(names.bronze_path(self._platform.lake, self.source))
        behind = self._behind(committed) if committed else []
        if committed is None or not behind:
            return
        try:
            result = fold_once(Chain(self._platform, self.source), behind, committed.version, self._note)
        except CdcAssetsError as error:
            self._note_failures("silver", {names.table_name(table): str(error) for table in behind})
            return
        self._note_failures("silver", result.failed)
        self._add(done, result.done)
        for short, fold in result.long.items():
            if self._lanes.is_full:
                done.busy = True
            else:
                self._lanes.start(("silver", short), partial(_alone, fold))
        done.busy = done.busy or bool(result.busy)

    def _behind(self, committed: Committed) -> list[Table]:
        """Those that silver may be folded of; whose turn was longest ago comes first."""
        tables = []
        for table in self.source.tables:
            committed_topic, short = committed.topics.get(names.lake_topic(self.source, table)), names.table_name(table)
            if committed_topic is None or not self._may("silver", table):
                continue
            if records_behind(self._platform.lake, self.source, table, committed_topic) > 0:
                tables.append(table)
            else:
                self._settle("silver", short)
        return sorted(tables, key=lambda table: self._folded_at.get(names.table_name(table), 0.0))

    def _may(self, layer: str, table: Table) -> bool:
        lane = (layer, names.table_name(table))
        return self.pauses.is_due(lane) and lane not in self._lanes.places

    def _is_full(self, table: Table) -> bool:
        """Bronze is at most a batch ahead of silver, unless that fails: a topic keeps its records for a time only."""
        committed = bronze_committed(names.bronze_path(self._platform.lake, self.source))
        committed_topic = committed.topics.get(names.lake_topic(self.source, table)) if committed else None
        if committed_topic is None or ("silver", names.table_name(table)) in self.pauses.failing:
            return False
        return records_behind(self._platform.lake, self.source, table, committed_topic) >= self.source.batching.max_records

    def _take_lanes(self, done: CarriedPass) -> None:
        for (layer, short), answer in self._lanes.take().items():
            if isinstance(answer, TableBusyError):
                done.busy = True
            elif isinstance(answer, Exception):
                # What is no error of ours is told by its type: its text alone may be a number.
                own = isinstance(answer, CdcAssetsError)
                self._note_failures(layer, {short: str(answer) if own else f"{type(answer).__name__}: {answer}"})
            else:
                self._add(done, answer)

    def _add(self, done: CarriedPass, tables: Iterable[AppendedTable | FoldedTable]) -> None:
        for news in tables:
            short = names.table_name(news.table)
            if isinstance(news, FoldedTable):
                done.folded.append(news)
                self._folded_at[short] = time.monotonic()
                self._settle("silver", short)
            else:
                done.appended.append(news)
                self._settle("bronze", short)

    def _note_failures(self, layer: str, failed: Mapping[str, str]) -> None:
        for short, reason in failed.items():
            failing = self.pauses.note_failure((layer, short), reason)
            self._say(f"{layer}/{self.source.name}/{short} failed, again in {failing.pause:.0f} s: {reason}")

    def _settle(self, layer: str, short: str) -> None:
        if self.pauses.note_success((layer, short)):
            self._say(f"{layer}/{self.source.name}/{short} goes on")

    def _note(self, text: str) -> None:
        """What a pass may say again and again is told once."""
        if text not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(text)
            self._say(text)


def _alone(fold: Callable[[], FoldedTable]) -> list[FoldedTable]:
    return [fold()]
