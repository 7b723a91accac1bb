"""Bronze and silver of a source of topics, as the assets work them, without Dagster's own records of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.bench.errors import BenchError
from benchmarks.bench.events import SCHEMA
from benchmarks.bench.feed import Feed
from benchmarks.bench.totals import read_totals
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.silver_fold import fold_tables
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source, TopicSource

Seconds = float
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Took:
    """What a piece of work took: seconds, and CPU seconds of the Spark server and of this process."""

    wall: Seconds
    cpu: Seconds

    def __add__(self, other: Took) -> Took:
        """One after the other."""
        return Took(self.wall + other.wall, self.cpu + other.cpu)


def make_source(name: str, topics: Sequence[str], **declared: object) -> TopicSource:
    """A source with a table for each topic; `declared` is said of each table."""
    form = {"envelope": "debezium-json", "connector": "postgresql", "columns": SCHEMA, "keys": ["aid"], **declared}
    tables = [{"name": f"accounts_{number}", "topic": topic, **form} for number, topic in enumerate(topics)]
    return TopicSource.model_validate({"source": name, "kind": "topics", "cluster": "lake", "tables": tables})


def append_bronze(platform: Platform, source: Source | TopicSource) -> None:
    """What the topics hold and bronze does not."""
    found = look(Chain(platform, source), source.tables)
    append(Chain(platform, source), found, "bench", lambda _: None)


def fold_silver(platform: Platform, source: Source | TopicSource) -> None:
    """All tables of the source, up to what bronze holds; several at a time, as many as the asset works."""
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    if committed is None:
        raise BenchError(f"bronze of {source.name} holds nothing after its append: ./cdc logs spark-connect")
    found = catalogue_of(Chain(platform, source), source.tables)
    for _ in fold_tables(Chain(platform, source), source.tables, found, committed.version, lambda _: None):
        pass


def append_and_fold(platform: Platform, source: Source | TopicSource) -> None:
    """Bronze and then silver, of the whole source."""
    append_bronze(platform, source)
    fold_silver(platform, source)


def check_rows(platform: Platform, source: TopicSource, feeds: Sequence[Feed]) -> None:
    """Every silver table against what was sent: a figure of wrong rows is none.

    Raises:
        BenchError: a table has other rows, or another sum.
    """
    for table, feed in zip(source.tables, feeds, strict=True):
        path = names.silver_path(platform.lake, source, table)
        if (found := read_totals(path)) != feed.expected:
            raise BenchError(f"{path} has rows and sum {found}, sent were {feed.expected}")


def measure(work: Callable[[], object], cpu: Callable[[], Seconds]) -> Took:
    """Do the work once."""
    return measure_answer(work, cpu)[1]


def measure_answer(work: Callable[[], Answer], cpu: Callable[[], Seconds]) -> tuple[Answer, Took]:
    """What the work answers, and what it took."""
    began, before = time.perf_counter(), cpu()
    answer = work()
    return answer, Took(time.perf_counter() - began, cpu() - before)
