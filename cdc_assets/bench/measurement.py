"""One measurement on one stack: the topics and tables that it makes, and how often each scenario runs."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets.bench.carry import Took, append_bronze, check_rows, fold_silver, make_source, measure
from cdc_assets.bench.feed import Feed, delete_topics
from cdc_assets.bench.figures import Figure
from cdc_assets.bench.profile import BenchPlatform
from cdc_assets.bench.stack import BenchStack
from cdc_assets.quantity import quantity
from cdc_assets.registry.topic_source import TopicSource

ROWS = 500_000


@dataclass(frozen=True)
class Size:
    """`trial` is the rows of the large table in a trial, which has one run that counts; `profile`: calls to Spark are told."""

    trial: int | None = None
    profile: bool = False

    @property
    def rows(self) -> int:
        """Of the large table."""
        return self.trial or ROWS

    def repeats(self, number: int) -> int:
        """How often a scenario runs, and counts, that would run so often."""
        return 1 if self.trial else number

    def target(self, figure: float) -> float | None:
        """What is to be reached; nothing in a trial."""
        return None if self.trial else figure


@dataclass
class Measurement:
    """`folder` is for its tables; `say` is told what is being done."""

    stack: BenchStack
    asked: Size
    folder: Path
    say: Callable[[str], None]
    name: str = field(default_factory=lambda: f"cdc_bench_{uuid.uuid4().hex[:6]}")
    topics: list[str] = field(default_factory=list)
    loaded: tuple[TopicSource, Feed] | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)
    """Of the newest run, by step."""

    def __post_init__(self) -> None:
        self.platform = BenchPlatform(lake_root=str(self.folder), counted=self.asked.profile)

    def close(self) -> None:
        """Remove the topics and the tables."""
        delete_topics(self.platform.lake_kafka(), self.topics)
        shutil.rmtree(self.folder, ignore_errors=True)
        for lock in (self.stack.home.root / "locks").glob(f"*.{self.name}*.lock"):
            lock.unlink(missing_ok=True)

    def feed(self, rows: int) -> Feed:
        """A new topic with its first load."""
        made = Feed(self.platform.lake_kafka(), f"{self.name}-{len(self.topics)}", rows)
        self.topics.append(made.topic)
        made.create()
        return made

    def large_table(self) -> tuple[TopicSource, Feed]:
        """The large table, loaded: by the scenario of the first load, or now."""
        if self.loaded is None:
            self.say(f"{quantity(self.asked.rows, 'row', form=',')} are loaded")
            feed = self.feed(self.asked.rows)
            self.loaded = make_source(self.name, [feed]), feed
            self.carry(self.loaded[0])
        return self.loaded

    def carry(self, source: TopicSource) -> tuple[Took, Took]:
        """Bronze once, and silver once."""
        profile, pid = self.platform.begin_profile(), self.stack.spark
        with profile.step("bronze", pid):
            bronze = measure(lambda: append_bronze(self.platform, source), self.stack.cpu)
        with profile.step("silver", pid):
            silver = measure(lambda: fold_silver(self.platform, source), self.stack.cpu)
        self.profile = profile.steps if self.asked.profile else {}
        return bronze, silver

    def cycles(
        self, name: str, source: TopicSource, feeds: Sequence[Feed], *, changes: int, warm_up: int, repeats: int
    ) -> Figure:
        """So many changes into each table, bronze and silver; the first runs do not count."""
        runs, found = warm_up + self.asked.repeats(repeats), []
        for number in range(runs):
            self.say(f"{name}: run {number + 1} of {runs}")
            for feed in feeds:
                feed.update(changes)
            bronze, silver = self.carry(source)
            found.append(bronze + silver)
        check_rows(self.platform, source, feeds)
        return Figure(name, found[warm_up:], found[:warm_up], profile=self.profile)
