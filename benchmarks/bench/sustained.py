"""The highest rate of events at which the lag does not grow, by this product and its peers; and ten minutes at one rate."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.bench.carry import Took, make_source, measure
from benchmarks.bench.feed import SentTopic
from benchmarks.bench.figures import OURS, Figure
from benchmarks.bench.measurement import Loaded, Measurement
from benchmarks.bench.peers.peer import Peer
from benchmarks.bench.steady_sender import Sent, SteadySender, steady_sender

_TABLES, _ROWS = 10, 50_000
_WANTED = 20_000.0
_RATES = (5_000.0, 10_000.0, 15_000.0, 20_000.0, 30_000.0, 40_000.0, 60_000.0, 80_000.0)
_WINDOW, _LONG, _TRIAL = 60.0, 600.0, 6.0
_GROWS = 1.2
_LATE_SECONDS = 2.0


@dataclass(frozen=True)
class SteadyLoad:
    """What happened at one rate: each cycle's seconds by the moment it began, and what was sent."""

    rate: float
    seconds: float
    cycles: Sequence[tuple[float, Took]]
    sent: Sent

    def third(self, number: int) -> list[float]:
        """Seconds of the cycles that began in that third of the window, 0 to 2."""
        low, high = self.seconds * number / 3, self.seconds * (number + 1) / 3
        return [took.wall for began, took in self.cycles if low <= began < high]

    @property
    def growth(self) -> float:
        """A cycle of the last third by one of the second. A cycle carries what came during the one before it, so cycles grow
        as the lag does; a third in which none began is one that lasted longer."""
        middle, last = self.third(1), self.third(2)
        return median(last) / median(middle) if middle and last else float("inf")

    @property
    def holds(self) -> bool:
        """Whether the lag stays as it is, and the sender could send so fast."""
        return self.growth <= _GROWS and self.sent.late <= _LATE_SECONDS


@dataclass(frozen=True)
class System:
    """One that carries all topics once; CPU seconds of all that works for it."""

    name: str
    carry: Callable[[], object]
    cpu: Callable[[], float]


@dataclass(frozen=True)
class Contender:
    """A system, the sender of its topics, and what it has loaded of them."""

    system: System
    sender: SteadySender
    feeds: Sequence[SentTopic]
    loaded: Loaded


def steady_load(bench: Measurement) -> Iterator[Figure]:
    """Each on topics of its own: another's events, up to 40 million, would have to be carried first."""
    seconds = _TRIAL if bench.asked.is_trial else _WINDOW
    with contender(bench, "steady") as ours:
        figure, newest = find_highest(bench, ours, seconds)
        yield figure
        behind = [Took(_WANTED / max(figure.median, 1.0), figure.runs[0].cpu)]
        yield Figure(f"{_WANTED:,.0f} events/s by the highest", behind, (), bench.asked.target(1.0), unit="x")
        if figure.median:
            window = carry_for(bench, ours, min(figure.median, _WANTED), _TRIAL if bench.asked.is_trial else _LONG)
            yield from figures_of_hold(bench, window)
            newest = window.sent
        expect_sent(ours, newest)
        bench.check(ours.loaded)
    for number, peer in enumerate(bench.peers):
        if peer.takes(_TABLES, bench.asked.rows(_ROWS)):
            with contender(bench, f"steady{number}", peer) as other:
                figure, newest = find_highest(bench, other, seconds)
                yield figure
                expect_sent(other, newest)
                bench.check_peers(other.loaded)


@contextmanager
def contender(bench: Measurement, name: str, peer: Peer | None = None) -> Iterator[Contender]:
    """The peer, or this product where none is given; its topics are filled, and belong to the bench's."""
    rows = bench.asked.rows(_ROWS)
    with steady_sender(f"{bench.name}-{name}", _TABLES, rows) as sender:
        bench.topics += sender.topics
        feeds = [SentTopic(bench.sender, topic, rows) for topic in sender.topics]
        loaded = Loaded(make_source(f"{bench.name}_{name}", sender.topics), feeds, [peer] if peer else [])
        if peer is None:
            system = System(OURS, partial(bench.carry, loaded.source), bench.stack.cpu)
        else:
            system = System(peer.name, partial(peer.carry, loaded.peer_tables), peer.cpu)
        yield Contender(system, sender, feeds, loaded)


def expect_sent(contender: Contender, sent: Sent) -> None:
    """Its tables are compared with what the sender says it has sent."""
    for feed, totals in zip(contender.feeds, sent.totals, strict=True):
        feed.told = totals


def find_highest(bench: Measurement, of: Contender, seconds: float) -> tuple[Figure, Sent]:
    """The rates one after the other until one does not hold; and what was sent so far."""
    of.system.carry()
    highest, cpu = 0.0, 0.0
    rates = _RATES[:1] if bench.asked.is_trial else _RATES
    for rate in rates:
        window = carry_for(bench, of, rate, seconds)
        if not window.holds:
            # Once more: one pause of the machine makes a minute's thirds unlike.
            window = carry_for(bench, of, rate, seconds)
        if not window.holds:
            break
        highest, cpu = rate, sum(took.cpu for _, took in window.cycles)
    took = Took(highest, cpu)
    return Figure("sustained: highest rate that holds", [took], (), None, system=of.system.name, unit="events/s"), window.sent


def figures_of_hold(bench: Measurement, window: SteadyLoad) -> Iterator[Figure]:
    """Ten minutes at one rate: how cycles grow, and how old the oldest event gets that is not in silver."""
    name = f"{window.rate:,.0f} events/s for {window.seconds:.0f} s"
    yield Figure(f"{name}: growth", [Took(window.growth, 0.0)], (), bench.asked.target(_GROWS), unit="x")
    took = [took for _, took in window.cycles]
    # What came just behind a cycle's look waits for its end, and for the next cycle.
    ages = [Took(before.wall + after.wall, after.cpu) for before, after in itertools.pairwise(took)]
    yield Figure(f"{name}: age of the oldest event", ages or took)


def carry_for(bench: Measurement, of: Contender, rate: float, seconds: float) -> SteadyLoad:
    """One cycle after the other while events come at that rate; what is left is carried afterwards, and does not count."""
    system, sender = of.system, of.sender
    bench.say(f"sustained, {system.name}: {rate:,.0f} events/s for {seconds:.0f} s")
    sender.begin(rate, seconds)
    began, cycles = time.monotonic(), []
    while (at := time.monotonic() - began) < seconds:
        cycles.append((at, measure(system.carry, system.cpu)))
    sent = sender.await_end()
    system.carry()
    load = SteadyLoad(rate, seconds, cycles, sent)
    middle, last = (median(load.third(number) or [0.0]) for number in (1, 2))
    bench.say(f"sustained, {system.name}: cycles of {middle:.2f} s, then {last:.2f} s; the sender was {sent.late:.1f} s late")
    return load
