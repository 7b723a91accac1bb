"""The bronze asset on fake topics and real Delta logs: what it has Spark read, and what a gap does to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.capture.incarnations.server_facts import Memory, Opening
from cdc_assets.chain import table_reload as reload_module
from cdc_assets.chain.bronze_append import AppendPlan, TopicSlice, append_epochs, look
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import lake_assets
from cdc_assets.defs.offsets_sensor import read_news
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.delta_logs import append_bronze
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic
from spark.bronze.append_job import SmallBatchOutcome
from spark.specs import BronzeSpec, JobResult

ORDERS, LINES = "core.shop.public.orders", "core.shop.public.lines"


class FakeSpark:
    """Keeps what it was asked to read."""

    def __init__(self) -> None:
        self.read: dict[str, tuple[int, dict[int, tuple[int, int]]]] = {}

    def run_in_tasks(self, job: Any, spec: BronzeSpec) -> SmallBatchOutcome:
        return SmallBatchOutcome(None, "left to Spark")

    def run(self, job: Any, spec: BronzeSpec) -> JobResult:
        self.read |= {t.topic: (t.epoch, t.ranges) for t in spec.topics}
        return JobResult("bronze", None, 1, 0, 0, 0, 0, {}, {}, 0.0)


@pytest.fixture
def spark() -> FakeSpark:
    return FakeSpark()


@pytest.fixture
def whole(platform: Platform, lake_kafka: FakeKafka, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """Bronze has the first two records of orders, of another topic of that name."""
    append_bronze(Path(platform.lake) / "bronze/shop", ORDERS, "orders", "id-before", 0, 2, version=0)
    monkeypatch.setattr(type(platform), "spark", lambda self: spark, raising=False)
    return platform


def materialize(source: Source, platform: Platform, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [lake_assets.build_bronze_assets(source)], instance=instance, resources={"platform": platform}, raise_on_error=False
    )


def test_a_gap_fails_its_table_alone_and_names_the_command(
    source: Source, whole: Platform, spark: FakeSpark, instance: dg.DagsterInstance
) -> None:
    run = materialize(source, whole, instance)
    assert not run.success
    told = str(run.failure_data_for_node("cdc_bronze_shop"))
    assert "was recreated" in told
    assert "cdc repair bronze shop orders" in told
    assert spark.read == {LINES: (0, {0: (0, 5)})}
    assert [m.asset_key.path[-1] for m in run.asset_materializations_for_node("cdc_bronze_shop")] == ["bronze_lines"]


@pytest.mark.slow
@pytest.mark.parametrize("end", [5, 2])
def test_a_topic_that_has_lost_its_begin_before_the_first_read_is_a_gap(
    source: Source, whole: Platform, lake_kafka: FakeKafka, spark: FakeSpark, instance: dg.DagsterInstance, end: int
) -> None:
    """Its first records are those of the snapshot. The sensor asks for the run that says so, also where none is left."""
    lake_kafka.topics[LINES] = FakeTopic("id-lines", {0: [(b"k", b"{}")] * end}, begins={0: 2})
    told = str(materialize(source, whole, instance).failure_data_for_node("cdc_bronze_shop"))
    gone = f"topic {LINES} partition 0: offsets 0 to 1 are gone before bronze read them"
    assert gone in told
    assert "cdc repair bronze shop lines" in told
    assert spark.read == {}
    news, problems = read_news(instance, whole, source)
    assert ({n.table: n.waiting for n in news}["lines"], any(gone in problem for problem in problems)) == (1, True)


def test_declared_so_the_table_is_read_again_and_goes_on_in_the_next_epoch(
    source: Source, whole: Platform, lake_kafka: FakeKafka, spark: FakeSpark, instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def read_anew(_: Any, tables: list[Table], found: AppendPlan, say: Any, known: Any) -> dict[str, TopicSlice]:
        (table,), epoch = tables, found.before[ORDERS].epoch + 1
        lake_kafka.topics[ORDERS] = FakeTopic("id-orders", {0: [(b"k", b"{}")] * 9})
        return {ORDERS: TopicSlice(table, lake_kafka.states([ORDERS])[ORDERS], epoch, {0: (0, 9)})}

    monkeypatch.setattr(reload_module, "reload_tables", read_anew)
    monkeypatch.setattr(Platform, "core_kafka", lambda self, cluster: FakeKafka())
    wanted = source.model_copy(update={"topics": source.topics.model_copy(update={"on_gap": "resnapshot"})})
    run = materialize(wanted, whole, instance)
    assert run.success
    assert spark.read == {ORDERS: (1, {0: (0, 9)}), LINES: (0, {0: (0, 5)})}
    told = {m.asset_key.path[-1]: m.metadata for m in run.asset_materializations_for_node("cdc_bronze_shop")}
    assert told["bronze_orders"]["cdc/epoch"].value == 1
    assert "was recreated" in str(told["bronze_orders"]["cdc/read_again_after"].value)


def test_an_epoch_that_opens_ends_the_old_one_at_its_bound(
    source: Source,
    whole: Platform,
    lake_kafka: FakeKafka,
    spark: FakeSpark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server was restored: what it sends behind the bound is not of the log before it. Every partition begins there."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    lake_kafka.topics[ORDERS] = FakeTopic("id-before", {0: [(b"k", b"{}")] * 9, 1: [(b"k", b"{}")] * 3})
    bounds, epochs = {ORDERS: {0: 4, 1: 3}, LINES: {0: 5}}, {ORDERS: 1, LINES: 1}
    memory = Memory.of("shop")
    memory.opening = Opening("restored", ["stop", "bound"], bounds, epochs)
    memory.save()
    found = look(Chain(whole, source), source.tables)
    assert {topic: (each.epoch, each.ranges) for topic, each in found.slices.items()} == {
        ORDERS: (0, {0: (2, 4), 1: (0, 3)}),
        LINES: (0, {0: (0, 5)}),
    }
    append_epochs(Chain(whole, source), epochs, bounds, print)
    assert spark.read == {ORDERS: (1, {0: (4, 9), 1: (3, 3)}), LINES: (1, {0: (5, 5)})}


def test_a_topic_that_is_not_there_yet_is_no_gap(
    source: Source, platform: Platform, lake_kafka: FakeKafka, spark: FakeSpark, instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(type(platform), "spark", lambda self: spark, raising=False)
    lake_kafka.topics.pop(ORDERS)
    run = materialize(source, platform, instance)
    assert "materialize its mirror asset first" in str(run.failure_data_for_node("cdc_bronze_shop"))
    assert spark.read == {LINES: (0, {0: (0, 5)})}
