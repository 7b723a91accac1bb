"""One measurement on one stack: the topics and tables that it makes, and how often each scenario runs."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks.bench.carry import Took, append_bronze, check_rows, fold_silver, make_source, measure
from benchmarks.bench.errors import BenchError
from benchmarks.bench.feed import Feed, Sender, delete_topics
from benchmarks.bench.figures import OURS, Figure
from benchmarks.bench.matched_runs import Contest
from benchmarks.bench.peers.peer import Peer, PeerTable
from benchmarks.bench.profile import BenchPlatform
from benchmarks.bench.stack import BenchStack
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.source_declaration import TopicSource
from spark.errors import quantity

ROWS = 500_000
ROWS_OF_SMALL = 1_000


@dataclass(frozen=True)
class Size:
    """`trial` is the rows of the large table in a trial, which has one run that counts; `profile`: calls to Spark are told;
    `long`: more probes where each waits."""

    trial: int | None = None
    profile: bool = False
    long: bool = False

    @property
    def is_trial(self) -> bool:
        """Whether there is nothing to be reached."""
        return self.trial is not None

    def rows(self, number: int) -> int:
        """Of a table that would have so many."""
        return self.trial or number

    def repeats(self, number: int) -> int:
        """How often a scenario runs, and counts, that would run so often."""
        return 1 if self.trial else number

    def target(self, figure: float) -> float | None:
        """What is to be reached; nothing in a trial."""
        return None if self.trial else figure


@dataclass(frozen=True)
class Cycles:
    """What is done again and again: so many changes into each table; the first runs do not count."""

    name: str
    changes: int
    warm_up: int
    repeats: int


@dataclass(frozen=True)
class Loaded:
    """A source whose topics are in the tables of all who take part."""

    source: TopicSource
    feeds: Sequence[Feed]
    peers: Sequence[Peer]

    @property
    def peer_tables(self) -> list[PeerTable]:
        """A table for each topic, by which peers know it."""
        return [PeerTable(f"{self.source.name}_{number}", feed.topic) for number, feed in enumerate(self.feeds)]


@dataclass
class Measurement:
    """`folder` is for its tables; `say` is told what is being done; `peers` do the same work after each run."""

    stack: BenchStack
    asked: Size
    folder: Path
    say: Callable[[str], None]
    peers: Sequence[Peer] = ()
    name: str = field(default_factory=lambda: f"cdc_bench_{uuid.uuid4().hex[:6]}")
    topics: list[str] = field(default_factory=list)
    loaded: dict[tuple[int, int], Loaded] = field(default_factory=dict)
    """By the number of tables and the rows of each."""
    profile: Mapping[str, Any] = field(default_factory=dict)
    """Of the newest run, by step."""

    def __post_init__(self) -> None:
        self.platform = BenchPlatform(lake_root=str(self.folder), counted=self.asked.profile)
        self.platform_of_stack = Platform()

    @cached_property
    def sender(self) -> Sender:
        """To the lake's cluster, for all topics."""
        return Sender(self.platform.lake_kafka())

    def close(self) -> None:
        """Remove the topics and the tables."""
        delete_topics(self.platform.lake_kafka(), self.topics)
        shutil.rmtree(self.folder, ignore_errors=True)
        for lock in (self.stack.home.root / "locks").glob(f"*.{self.name}*.lock"):
            lock.unlink(missing_ok=True)

    def feed(self, rows: int) -> Feed:
        """A new topic with its first load."""
        made = Feed(self.sender, f"{self.name}-{len(self.topics)}", rows)
        self.topics.append(made.topic)
        made.create()
        return made

    def make(self, name: str, feeds: Sequence[Feed], *, peers: bool = True, **declared: object) -> Loaded:
        """A source of these topics, of which nothing has been carried yet; `declared` is said of each table."""
        taking = [peer for peer in self.peers if peers and peer.takes(len(feeds), feeds[0].rows)]
        return Loaded(
            make_source(f"{self.name}{name}_{len(self.topics)}", [feed.topic for feed in feeds], **declared), feeds, taking
        )

    def tables(self, number: int, rows: int, *, peers: bool = True) -> Loaded:
        """So many tables of so many rows, loaded: by an earlier scenario, or now."""
        if (number, rows) not in self.loaded:
            self.say(f"{quantity(number, 'table')} of {quantity(rows, 'row', form=',')} are loaded")
            made = self.make(f"_{number}x{rows}", [self.feed(rows) for _ in range(number)], peers=peers)
            self.carry(made.source)
            for peer in made.peers:
                peer.carry(made.peer_tables)
            self.loaded[number, rows] = made
        return self.loaded[number, rows]

    def carry(self, source: TopicSource) -> tuple[Took, Took]:
        """Bronze once, and silver once."""
        profile, pid = self.platform.begin_profile(), self.stack.spark
        # A step's profile costs milliseconds: it is taken where nobody asks for it as well, and not told.
        with profile.step("bronze", pid):
            bronze = measure(lambda: append_bronze(self.platform, source), self.stack.cpu)
        with profile.step("silver", pid):
            silver = measure(lambda: fold_silver(self.platform, source), self.stack.cpu)
        self.profile = profile.steps if self.asked.profile else {}
        return bronze, silver

    def compete(self, contest: Contest, loaded: Loaded) -> tuple[Took, Took]:
        """All who take part once, on the same events; what bronze and silver took here."""
        bronze, silver = self.carry(loaded.source)
        contest.add(OURS, bronze + silver)
        tables = loaded.peer_tables
        for peer in loaded.peers:
            contest.add(peer.name, measure(partial(peer.carry, tables), peer.cpu))
        return bronze, silver

    def cycles(self, asked: Cycles, loaded: Loaded) -> Contest:
        """So many changes into each table, bronze and silver, and the peers."""
        runs = asked.warm_up + self.asked.repeats(asked.repeats)
        contest = Contest(asked.name, asked.warm_up, loaded.peers)
        for number in range(runs):
            self.say(f"{asked.name}: run {number + 1} of {runs}")
            for feed in loaded.feeds:
                feed.update(asked.changes)
            self.compete(contest, loaded)
        self.check(loaded)
        return contest

    def check(self, loaded: Loaded) -> None:
        """Every table of all who take part against what was sent.

        Raises:
            BenchError: a table has other rows, or another sum.
        """
        check_rows(self.platform, loaded.source, loaded.feeds)
        self.check_peers(loaded)

    def check_peers(self, loaded: Loaded) -> None:
        """The same of the peers' tables alone."""
        for peer in loaded.peers:
            for table, feed in zip(loaded.peer_tables, loaded.feeds, strict=True):
                if (found := peer.totals(table)) != feed.expected:
                    raise BenchError(f"{peer.name}: {table.name} has rows and sum {found}, sent were {feed.expected}")


Run = Callable[[Measurement], Iterator[Figure]]
"""A scenario: what it measures, as figures."""
