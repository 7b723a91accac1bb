"""What stands behind silver is built once per change, and never at rest; a table's checks keep their verdicts meanwhile.

The offsets sensor's own ticks, told to Dagster as its daemon does, and conditions evaluated on the chain's own definitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.data_version import (
    CachingStaleStatusResolver,
    StaleStatus,
    extract_data_version_from_entry,
)
from dagster._core.loader import LoadingContextForTest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import asset_key, change_event
from cdc_assets.defs.asset_steps import table_step
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.defs.conftest import SOURCE
from cdc_assets_tests.support.caught_up import LINES, catch_up
from cdc_assets_tests.support.fakes import FakeKafka

ORDERS = dg.AssetKey(["silver", "shop", "silver_orders"])
FOLLOWERS = {
    "eager": dg.AutomationCondition.eager(),
    "changed": dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()),
}


@dataclass
class Stack:
    """The chain with assets behind silver that follow it."""

    defs: dg.Definitions
    source: Source
    platform: Platform
    instance: dg.DagsterInstance
    cursor: Any = None
    sensor_cursor: str | None = None

    def tick(self) -> list[str]:
        """What the sensor tells, as the daemon keeps it."""
        with dg.build_sensor_context(
            instance=self.instance, resources={"platform": self.platform}, cursor=self.sensor_cursor
        ) as context:
            found = build_offsets_sensor(self.source).evaluate_tick(context)
        self.sensor_cursor = found.cursor
        for event in found.asset_events:
            self.instance.report_runless_asset_event(event)
        return [type(event).__name__ for event in found.asset_events if event.asset_key == ORDERS]

    def asked_for(self) -> list[str]:
        """The assets that Dagster would build now; they are built."""
        found = dg.evaluate_automation_conditions(self.defs, self.instance, cursor=self.cursor)
        self.cursor = found.cursor
        asked = sorted(name for name in FOLLOWERS if found.get_num_requested(dg.AssetKey(["gold", name])))
        for name in asked:
            self.build(name)
        return asked

    def build(self, name: str) -> None:
        self.instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["gold", name])))

    def shows(self, check: str) -> bool:
        """Whether the page has the check's last verdict, instead of "Not Evaluated"."""
        key = dg.AssetCheckKey(ORDERS, check)
        record = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        return asyncio.run(record.targets_latest_materialization(LoadingContextForTest(self.instance)))

    def version(self) -> str | None:
        event = self.instance.get_latest_materialization_event(ORDERS)
        found = extract_data_version_from_entry(event) if event else None
        return found.value if found else None

    @property
    def silver(self) -> Path:
        return Path(self.platform.lake) / "silver/shop/orders"


@pytest.fixture
def stack(source: Source, platform: Platform, instance: dg.DagsterInstance) -> Stack:
    """At rest: followers are built, and each tick is half a window after the last."""
    hasty = Source.model_validate({**SOURCE, "freshness": {"fail_after": timedelta(milliseconds=2)}})
    assets = [
        dg.asset(key=["gold", name], deps=[ORDERS], automation_condition=condition)(lambda: None)
        for name, condition in FOLLOWERS.items()
    ]
    parts = dg.Definitions(assets=assets, resources={"platform": platform}, executor=dg.in_process_executor)
    catch_up(platform, instance)
    found = Stack(dg.Definitions.merge(build_source_defs(source), parts), hasty, platform, instance)
    # What was materialized by a release before told no version: it is materialized once more.
    found.tick()
    for name in FOLLOWERS:
        found.build(name)
    found.asked_for()
    return found


@pytest.mark.slow
def test_a_table_at_rest_builds_nothing_and_keeps_its_verdicts(stack: Stack) -> None:
    job = dg.define_asset_job("looks", selection=dg.AssetSelection.checks(dg.AssetCheckKey(ORDERS, "quarantine_empty")))
    defs = dg.Definitions.merge(stack.defs, dg.Definitions(jobs=[job]))
    assert defs.resolve_job_def("looks").execute_in_process(instance=stack.instance).success
    version = stack.version()
    for _ in range(3):
        assert stack.tick(), "nothing was told of the table: it would be late"
        assert stack.shows("quarantine_empty"), "the page says Not Evaluated"
        assert stack.asked_for() == []
    assert stack.version() == version
    assert version is not None


@pytest.mark.slow
def test_a_change_builds_what_follows_once(stack: Stack) -> None:
    """By a command beside Dagster, as a healing is: the sensor finds it in the log."""
    for rows in (4, 5):
        write_deltalake(str(stack.silver), pa.table({"id": pa.array([rows], pa.int64())}), mode="append")
        before = stack.version()
        stack.tick()
        assert stack.asked_for() == ["changed", "eager"]
        assert stack.version() not in (None, before)
        for _ in range(2):
            stack.tick()
            assert stack.asked_for() == []


@pytest.mark.slow
def test_a_commit_that_changes_no_row_is_no_change(stack: Stack) -> None:
    write_deltalake(str(stack.silver), pa.table({"id": pa.array([9], pa.int64())}), mode="append")
    stack.tick()
    assert stack.asked_for() == ["changed", "eager"]
    table = DeltaTable(stack.silver)
    table.optimize.compact()
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert DeltaTable(stack.silver).version() > 2
    assert "AssetMaterialization" not in stack.tick()
    assert stack.asked_for() == []


@pytest.mark.slow
def test_dagsters_own_freshness_check_counts_a_table_at_rest(stack: Stack) -> None:
    """The commonest check that users put on silver."""
    seconds = timedelta(seconds=30)
    (own,) = dg.build_last_update_freshness_checks(assets=[ORDERS], lower_bound_delta=seconds)
    stack.tick()
    (record,) = stack.instance.fetch_observations(ORDERS, limit=1).records
    observed = record.asset_observation
    assert observed is not None
    assert observed.metadata["dagster/last_updated_timestamp"].value == pytest.approx(record.timestamp, abs=1)
    assert extract_data_version_from_entry(record.event_log_entry).value == stack.version()  # type: ignore[union-attr]
    made = dg.materialize([own], instance=stack.instance, selection=dg.AssetSelection.checks(*own.check_keys))
    assert [each.passed for each in made.get_asset_check_evaluations()] == [True]


def fails() -> Iterator[Any]:
    raise dg.Failure("one of them fails")
    yield


@pytest.mark.parametrize(
    ("versions", "then", "made", "seen"),
    [
        (("1@5", "2@6"), None, ["lines", "orders"], []),
        (("1@5", "1@5"), None, [], ["lines", "orders"]),
        # A failed step shows each asset as failed that it has not materialized.
        (("1@5", "1@5"), fails, ["lines", "orders"], []),
    ],
)
def test_a_fold_that_changed_no_row_is_an_observation(
    source: Source,
    platform: Platform,
    instance: dg.DagsterInstance,
    versions: tuple[str, str],
    then: Callable[[], Iterator[Any]] | None,
    made: list[str],
    seen: list[str],
) -> None:
    for version, end in zip(versions, (None, then), strict=True):
        step = fold_of(source, version, end)
        result = dg.materialize([step], instance=instance, resources={"platform": platform}, raise_on_error=False)
        assert result.success == (end is None)
    told = {"made": dg.DagsterEventType.ASSET_MATERIALIZATION, "seen": dg.DagsterEventType.ASSET_OBSERVATION}
    found = {
        name: sorted(record.asset_key.path[-1].removeprefix("silver_") for record in records if record.asset_key)
        for name, kind in told.items()
        for records in [instance.get_records_for_run(result.run_id, of_type=kind).records]
    }
    assert found == {"made": made, "seen": seen}


def test_an_asset_behind_in_the_same_run_is_built_after_a_fold_that_changed_nothing(
    source: Source, platform: Platform, instance: dg.DagsterInstance
) -> None:
    gold = dg.asset(key=["gold", "all"], deps=[ORDERS])(lambda: None)
    for _ in range(2):
        result = dg.materialize([fold_of(source, "1@5"), gold], instance=instance, resources={"platform": platform})
        assert [event.asset_key for event in result.asset_materializations_for_node("gold__all")] == [gold.key]


def links_of(source: Source) -> list[dg.AssetsDefinition]:
    """Mirror, bronze and silver, whose rows are of one version at each fold."""

    def step_of(layer: str) -> dg.AssetsDefinition:
        @table_step(layer, source)
        def step(_: Any, __: Any, tables: list[Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
            yield from ((table, {}) for table in tables)

        return step

    return [step_of("mirror"), step_of("bronze"), fold_of(source, "1@5")]


def unsynced(links: list[dg.AssetsDefinition], instance: dg.DagsterInstance) -> list[str]:
    """The boxes of the lineage that Dagster's page calls so."""
    graph = dg.Definitions(assets=links, resources={"platform": None}).get_repository_def().asset_graph
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    keys = graph.executable_asset_keys
    return sorted(key.path[-1] for key in keys if resolver.get_status(key) != StaleStatus.FRESH)


@pytest.mark.parametrize("beside", [False, True], ids=["by its step", "beside its step"])
def test_records_that_change_no_row_leave_nothing_unsynced(
    source: Source, platform: Platform, instance: dg.DagsterInstance, *, beside: bool
) -> None:
    """Also where the mirrors are brought again, as at each start of the stack."""
    links = links_of(source)
    mirrors, bronze, silver = links

    def run(*steps: dg.AssetsDefinition) -> None:
        selection = dg.AssetSelection.assets(*(key for step in steps for key in step.keys))
        assert dg.materialize(links, selection=selection, instance=instance, resources={"platform": platform}).success

    run(mirrors, bronze, silver)
    if beside:
        for table in source.tables:
            key, log = (asset_key(layer, source, table) for layer in ("silver", "bronze"))
            instance.report_runless_asset_event(change_event(key, {}, "1@5", "0@4", log=log))
    run(bronze, silver)
    assert unsynced(links, instance) == []
    run(mirrors)
    assert unsynced(links, instance) == []


def fold_of(source: Source, version: str, then: Callable[[], Iterator[Any]] | None = None) -> dg.AssetsDefinition:
    def version_of(*_: object) -> str:
        return version

    @table_step("silver", source, version_of=version_of)
    def silver(_: Any, __: Any, tables: list[Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        for table in tables:
            yield table, {}
        if then is not None:
            yield from then()

    return silver


@pytest.mark.slow
def test_a_table_that_stays_behind_is_late_and_then_is_not(stack: Stack, lake_kafka: FakeKafka) -> None:
    lines = asset_key("silver", stack.source, stack.source.table("lines"))
    key = dg.AssetCheckKey(lines, "fresh")

    def verdict() -> tuple[bool, str]:
        record = stack.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        assert record.evaluation is not None
        return record.evaluation.passed, record.evaluation.description or ""

    stack.tick()
    assert verdict()[0]
    log = lake_kafka.topics[LINES].logs[0]
    log.append((b"k", b"{}"))
    stack.tick()
    stack.tick()
    passed, text = verdict()
    assert not passed
    assert text.startswith("silver has been behind since ")
    assert text.endswith("cdc get tables shop")
    log.pop()
    stack.tick()
    assert verdict()[0]
