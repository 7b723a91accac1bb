"""What a pass decides, on real Delta logs and a fake Kafka; the jobs of Spark are the test's own, and write such logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.chain import continuous_passes, continuous_source
from cdc_assets.chain.continuous_passes import FoldedTable, SilverPass
from cdc_assets.chain.continuous_source import CarriedPass, SourceWork
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError, SparkRunError, TableBusyError
from cdc_assets.registry.source_declaration import BaseSource, Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.caught_up import LINES, ORDERS, catch_up
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic, FakeTopicWatch
from spark.specs import JobResult

ENTRY = (b"k", b"{}")


def result(records: int) -> JobResult:
    return JobResult("silver", "t", 1, records, records, 0, 0, {"c": records}, {}, 0.1, {"quarantined": 1})


@dataclass
class SparkJobs:
    """Bronze's appends and silver's folds, as far as the logs tell of them; some tables make them fail."""

    platform: Platform
    broken: set[str] = field(default_factory=set)
    long: set[str] = field(default_factory=set)
    appends: list[list[str]] = field(default_factory=list)
    folds: list[list[str]] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    away: bool = False

    def append(
        self, chain: Chain[BaseSource], found: Any, _: str, say: Callable[[str], None], *, most: int | None = None
    ) -> tuple[float, dict[str, int]]:
        assert most == 1
        (parts,) = continuous_passes.plan_batches(chain.source, found)[:1]
        self.appends.append(sorted(names.table_name(found.slices[topic].table) for topic in parts))
        if self.away or self.broken & {f"bronze/{short}" for short in self.appends[-1]}:
            raise SparkRunError("no space left")
        for topic, ranges in parts.items():
            short, (start, end) = names.table_name(found.slices[topic].table), ranges[0]
            path = Path(chain.platform.lake) / "bronze" / chain.source.name
            append_bronze(path, topic, short, found.slices[topic].state.topic_id, start, end, version=start, seen=True)
        return 0.1, dict.fromkeys(parts, 1)

    def fold(self, chain: Chain[BaseSource], tables: Sequence[Table], version: int, say: Callable[[str], None]) -> SilverPass:
        shorts = [names.table_name(table) for table in tables]
        self.folds.append(sorted(shorts))
        if "catalogue" in self.broken:
            raise DatabaseError("the source is away")
        found = SilverPass()
        for table, short in zip(tables, shorts, strict=True):
            if f"silver/{short}" in self.broken:
                found.failed[short] = "a value of no use"
            elif short in self.long:
                found.long[short] = lambda table=table: self._slowly(chain.source, table)  # type: ignore[misc]
            else:
                found.done.append(self._folded(chain.source, table))
        return found

    def _slowly(self, source: BaseSource, table: Table) -> FoldedTable:
        assert self.go_on.wait(30)
        return self._folded(source, table)

    def _folded(self, source: BaseSource, table: Table) -> FoldedTable:
        from cdc_assets.clients.delta_log import bronze_committed

        committed, topic = bronze_committed(names.bronze_path(self.platform.lake, source)), names.lake_topic(source, table)
        assert committed is not None
        state, short = committed.topics[topic], names.table_name(table)
        write_silver(Path(self.platform.lake) / "silver" / source.name / short, topic, short, state.topic_id, state.records)
        unused: Any = None
        return FoldedTable(table, unused, (result(state.records), None))


@pytest.fixture
def jobs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> SparkJobs:
    found = SparkJobs(platform)
    monkeypatch.setattr(continuous_passes, "append", found.append)
    monkeypatch.setattr(continuous_source, "fold_once", found.fold)

    def ask(_: Platform) -> None:
        if found.away:
            raise SparkRunError("Spark is away")

    monkeypatch.setattr(continuous_passes, "ask_spark", ask)
    return found


def work_of(platform: Platform, source: Source, lines: list[str] | None = None) -> SourceWork:
    waiter: Any = FakeTopicWatch()
    return SourceWork(platform, source, (lines if lines is not None else []).append, waiter)


def tables_of(done: CarriedPass) -> tuple[list[str], list[str]]:
    return tuple(sorted(names.table_name(e.table) for e in found) for found in (done.appended, done.folded))  # type: ignore[return-value]


BOTH = ["lines", "orders"]


def test_a_pass_carries_what_is_new_and_the_next_one_nothing(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    work = work_of(platform, source)
    done = work.carry()
    assert tables_of(done) == (BOTH, BOTH)
    assert sorted(each.added for each in done.appended) == [3, 5]
    assert work.carry().is_idle
    assert (jobs.appends, jobs.folds) == ([BOTH], [BOTH])
    # The clock of the lag: nothing is behind.
    assert {lag.records for lag in work.lags().values()} == {0}


def test_a_pass_takes_one_batch_of_each_table(source: Source, platform: Platform, jobs: SparkJobs, lake_kafka: FakeKafka) -> None:
    lake_kafka.topics[LINES] = FakeTopic("id-lines", {0: [ENTRY] * 250})
    work, more = work_of(platform, source), []
    while not (done := work.carry()).is_idle:
        more.append((sum(each.added for each in done.appended), done.more))
    assert more == [(103, True), (100, True), (50, False)]


def test_bronze_stays_within_a_batch_of_silver_that_is_slow(
    source: Source, platform: Platform, jobs: SparkJobs, lake_kafka: FakeKafka
) -> None:
    lake_kafka.topics[LINES] = FakeTopic("id-lines", {0: [ENTRY] * 250})
    jobs.long.add("lines")
    work = work_of(platform, source)
    assert tables_of(work.carry()) == (BOTH, ["orders"])
    for _ in range(3):
        # The batch of 100 is not folded yet, so bronze reads no second one; the other table goes on.
        lake_kafka.topics[ORDERS].logs[0].append(ENTRY)
        assert tables_of(work.carry()) == (["orders"], ["orders"])
    assert work.lags()["lines"].records == 250
    jobs.go_on.set()
    jobs.long.clear()
    while not work.wait(0.2):
        pass
    assert set(tables_of(work.carry())[1]) == {"lines"}
    while not work.carry().is_idle:
        pass
    assert work.lags()["lines"].records == 0


def test_bronze_goes_on_where_silver_fails(
    source: Source, platform: Platform, jobs: SparkJobs, lake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic keeps its records for a time only; bronze keeps them."""
    lake_kafka.topics[LINES] = FakeTopic("id-lines", {0: [ENTRY] * 250})
    jobs.broken.add("silver/lines")
    lines: list[str] = []
    work = work_of(platform, source, lines)
    appended = [tables_of(work.carry())[0] for _ in range(3)]
    assert appended == [BOTH, ["lines"], ["lines"]]
    assert lines == ["silver/shop/lines failed, again in 1 s: a value of no use"]
    assert work.carry().is_idle
    jobs.broken.clear()
    monkeypatch.setattr(work.pauses, "is_due", lambda _: True)
    assert tables_of(work.carry()) == ([], ["lines"])
    assert lines[-1] == "silver/shop/lines goes on"
    assert not work.pauses.failing


def test_a_table_that_makes_an_append_fail_is_found_and_left_out(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    jobs.broken.add("bronze/lines")
    work = work_of(platform, source)
    assert tables_of(work.carry()) == (["orders"], ["orders"])
    assert jobs.appends == [BOTH, ["orders"], ["lines"]] or jobs.appends == [BOTH, ["lines"], ["orders"]]
    assert list(work.pauses.failing) == [("bronze", "lines")]


def test_where_spark_is_away_no_table_is_blamed(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    jobs.away = True
    work = work_of(platform, source)
    with pytest.raises(SparkRunError, match="away"):
        work.carry()
    assert (len(jobs.appends), work.pauses.failing) == (1, {})
    jobs.away = False
    assert tables_of(work.carry()) == (BOTH, BOTH)


def test_a_catalogue_that_cannot_be_read_stops_silver_alone(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    jobs.broken.add("catalogue")
    work = work_of(platform, source)
    assert tables_of(work.carry()) == (BOTH, [])
    assert set(work.pauses.failing) == {("silver", "lines"), ("silver", "orders")}


def test_what_somebody_else_holds_is_left_and_looked_at_again(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    work = work_of(platform, source)
    with table_lock("bronze", "shop", "lines"):
        done = work.carry()
        assert tables_of(done) == (["orders"], ["orders"])
        assert (done.busy, work.pauses.failing) == (True, {})
    assert tables_of(work.carry()) == (["lines"], ["lines"])


def test_what_others_have_appended_is_folded(
    source: Source, platform: Platform, jobs: SparkJobs, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    catch_up(platform, instance)
    work = work_of(platform, source)
    assert work.carry().is_idle
    append_bronze(Path(platform.lake) / "bronze/shop", LINES, "lines", "id-lines", 5, 7, version=3, seen=True)
    lake_kafka.topics[LINES].logs[0] += [ENTRY] * 2
    assert tables_of(work.carry()) == ([], ["lines"])


def test_a_gap_fails_by_name_and_ends_with_the_gap(
    source: Source, platform: Platform, jobs: SparkJobs, lake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_kafka.topics[LINES].begins[0] = 2
    del lake_kafka.topics[ORDERS]
    work = work_of(platform, source)
    assert work.carry().is_idle
    told = {place: each.reason for place, each in work.pauses.failing.items()}
    assert "offsets 0 to 1 are gone" in told["bronze", "lines"]
    assert "does not exist yet" in told["bronze", "orders"]
    lake_kafka.topics[ORDERS] = FakeTopic("id-orders", {0: []})
    monkeypatch.setattr(work.pauses, "is_due", lambda _: True)
    work.carry()
    assert list(work.pauses.failing) == [("bronze", "lines")]


def test_a_declared_gap_is_closed_beside_the_others(
    source: Source, platform: Platform, jobs: SparkJobs, lake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_kafka.topics[LINES].begins[0] = 2
    again = source.model_copy(update={"topics": source.topics.model_copy(update={"on_gap": "resnapshot"})})
    asked = []

    def read_again(_: Chain[BaseSource], table: Table, __: Any) -> list[Any]:
        asked.append(names.table_name(table))
        assert jobs.go_on.wait(30)
        raise TableBusyError("somebody else reads it again")

    monkeypatch.setattr(continuous_source, "read_again", read_again)
    work = work_of(platform, again)
    assert tables_of(work.carry()) == (["orders"], ["orders"])
    assert work.carry().busy
    jobs.go_on.set()
    assert work.close(10)
    assert (asked, work.pauses.failing) == (["lines"], {})


@pytest.mark.parametrize(("records", "delay", "carried"), [(5, 60, True), (6, 60, False), (6, 0, True)])
def test_batching_says_when_a_pass_is_worth_it(
    source: Source, platform: Platform, jobs: SparkJobs, records: int, delay: int, carried: bool
) -> None:
    batching = source.batching.model_copy(update={"min_records": records, "max_delay": timedelta(seconds=delay)})
    work = work_of(platform, source.model_copy(update={"batching": batching}))
    assert bool(work.carry().appended) is carried


def test_woken_for_nothing_it_jumps(source: Source, platform: Platform, jobs: SparkJobs) -> None:
    waiter: Any = FakeTopicWatch()
    work = SourceWork(platform, source, lambda _: None, waiter)
    while not work.carry().is_idle:
        pass
    assert waiter.jumps == 0
    waiter.news = True
    assert work.wait(1)
    assert work.carry().is_idle
    assert waiter.jumps == 1
    assert not work.wait(0.01)
