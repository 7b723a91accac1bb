"""Continuous mode as Dagster sees it: who keeps the run alive, what is left to the offsets sensor, what the run tells."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorStatus

from cdc_assets.chain.bronze_append import AppendedTable
from cdc_assets.chain.continuous_passes import FoldedTable, add_results
from cdc_assets.chain.continuous_source import CarriedPass
from cdc_assets.chain.lag import TableLag
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.continuous_run import ENDS_TAG, EVERY_SECONDS, ContinuousReports, SignOfLife, job_name, keeper_name
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.restart_sensors import why_not_now
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.names import DIGEST_TAG
from cdc_assets.registry.source_declaration import Source, digest
from cdc_assets_tests.support.caught_up import LINES, catch_up
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopicWatch
from spark.specs import JobResult


@pytest.fixture
def continuous(source: Source) -> Source:
    return source.model_copy(update={"mode": "continuous"})


def test_only_a_source_that_declares_it_has_a_long_run(source: Source, continuous: Source) -> None:
    for each, has in ((source, False), (continuous, True)):
        found = build_source_defs(each)
        assert (job_name(each) in {job.name for job in found.jobs or ()}) is has
        assert (keeper_name(each) in {sensor.name for sensor in found.sensors or ()}) is has


@pytest.mark.slow
def test_the_offsets_sensor_asks_for_backups_alone(
    continuous: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    assert continuous.backup is not None
    often = continuous.model_copy(update={"backup": continuous.backup.model_copy(update={"every": timedelta(0)})})

    def tick() -> Any:
        context = dg.build_sensor_context(instance=instance, resources={"platform": platform})
        return build_offsets_sensor(often).evaluate_tick(context)

    assert not tick().run_requests
    assert f"the run of {keeper_name(continuous)}" in (tick().skip_message or "")
    catch_up(platform, instance)
    lake_kafka.topics[LINES].logs[0].append((b"k", b"{}"))
    assert not tick().run_requests
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            dg.AssetKey(["backup", "shop", "backup_lines"]), metadata={"cdc/epoch": 0, "cdc/epoch_records": 4}
        )
    )
    (request,) = tick().run_requests
    assert request.asset_selection == [dg.AssetKey(["backup", "shop", "backup_lines"])]


def started(instance: dg.DagsterInstance, source: Source, *, loaded: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    @dg.job(name=job_name(source))
    def job() -> None: ...

    return instance.create_run_for_job(job, status=status, tags={DIGEST_TAG: loaded})


def test_one_run_is_kept_and_an_older_one_is_asked_to_end(continuous: Source, instance: dg.DagsterInstance) -> None:
    now = time.time()
    assert why_not_now(instance, continuous, "new", now=now) == ""
    run = started(instance, continuous, loaded="new", status=dg.DagsterRunStatus.STARTED)
    SignOfLife(run.run_id, now, "7 records/s, caught up").leave(instance, continuous)
    assert why_not_now(instance, continuous, "new", now=now) == f"run {run.run_id[:8]} is at work: 7 records/s, caught up"
    assert ENDS_TAG not in instance.get_run_by_id(run.run_id).tags  # type: ignore[union-attr]
    assert "is at work" in why_not_now(instance, continuous, "newer", now=now)
    assert "newer definitions" in instance.get_run_by_id(run.run_id).tags[ENDS_TAG]  # type: ignore[union-attr]
    instance.report_run_canceled(run)
    assert why_not_now(instance, continuous, "newer", now=now) == ""


def begin(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    from dagster._core.events import DagsterEvent, DagsterEventType

    event = DagsterEvent(DagsterEventType.RUN_START.value, run.job_name)
    instance.report_dagster_event(event, run_id=run.run_id)


def test_a_run_without_signs_of_life_is_ended(continuous: Source, instance: dg.DagsterInstance) -> None:
    run = started(instance, continuous, loaded="new", status=dg.DagsterRunStatus.STARTING)
    begin(instance, run)
    now = time.time()
    assert "is at work" in why_not_now(instance, continuous, "new", now=now + 170)
    SignOfLife(run.run_id, now + 100).leave(instance, continuous)
    assert "is at work" in why_not_now(instance, continuous, "new", now=now + 270)
    assert why_not_now(instance, continuous, "new", now=now + 290) == ""
    assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]


def test_failures_in_a_row_wait_longer_each_time(continuous: Source, instance: dg.DagsterInstance) -> None:
    told = []
    for _ in range(3):
        instance.report_run_failed(started(instance, continuous, loaded="x", status=dg.DagsterRunStatus.STARTED))
        told.append(why_not_now(instance, continuous, "x", now=time.time()))
    assert [text.rpartition(" in ")[2] for text in told] == ["5 s", "10 s", "20 s"]
    assert why_not_now(instance, continuous, "x", now=time.time() + 21) == ""


def result(records: int, version: int | None) -> JobResult:
    return JobResult(
        "silver",
        "lines",
        version,
        records,
        records,
        0,
        0,
        {"c": records},
        {},
        0.5,
        {"quarantined": 1, "positions_remembered": records},
    )


def carried(source: Source, start: int, end: int) -> CarriedPass:
    table = source.table("lines")
    found = CatalogueTable(table.id, (CatalogueColumn("id", "bigint", False),), ("id",))
    appended = AppendedTable(table, {0: (start, end)}, end - start, end, 0, end, 1, 0.25)
    return CarriedPass([appended], [FoldedTable(table, found, (result(end - start, end), None))])


def test_the_commits_of_half_a_minute_are_one_materialization(continuous: Source, tmp_path: Path) -> None:
    now = [0.0]
    reports = ContinuousReports(str(tmp_path), continuous, clock=lambda: now[0])

    def told(**more: bool) -> list[Any]:
        return list(reports.due(lambda: {"lines": TableLag(4, 1.25)}, **more))

    reports.add(carried(continuous, 0, 10))
    first = told()
    assert [type(event).__name__ for event in first] == ["AssetMaterialization"] * 2 + ["AssetCheckEvaluation"] * 2
    for start in (10, 20, 30):
        now[0] += EVERY_SECONDS / 4
        reports.add(carried(continuous, start, start + 10))
        assert told() == []
    now[0] += EVERY_SECONDS / 4
    bronze, silver = told()
    metadata = {key: value.value for key, value in bronze.metadata.items()}
    assert metadata["cdc/records_appended"] == 30
    assert metadata["cdc/offset_ranges"] == {"0": [10, 40]}
    assert (metadata["cdc/batches"], metadata["cdc/seconds"], metadata["cdc/throughput"]) == (3, 0.75, 1.0)
    metadata = {key: value.value for key, value in silver.metadata.items()}
    assert (metadata["cdc/events_folded"], metadata["cdc/delta_version"], metadata["cdc/records_quarantined"]) == (30, 40, 3)
    assert (metadata["cdc/lag_records"], metadata["cdc/lag_seconds"]) == (4, 1.25)
    assert silver.asset_key == dg.AssetKey(["silver", "shop", "silver_lines"])
    reports.add(carried(continuous, 40, 50))
    assert told() == []
    last = list(reports.due(dict, all_of_it=True))
    assert [event.metadata["cdc/delta_version"].value for event in last] == [50, 50]
    assert not any("cdc/lag_records" in event.metadata for event in last)
    now[0] += 3600
    assert told() == []


def test_two_folds_are_told_as_one() -> None:
    both = add_results(result(3, 7), replace(result(4, None), by_op={"u": 4}))
    assert (both.version, both.rows_read, both.by_op, both.seconds) == (7, 7, {"c": 3, "u": 4}, 1.0)
    assert both.detail == {"quarantined": 2, "positions_remembered": 4}


@pytest.mark.slow
def test_the_run_carries_tells_and_ends_when_its_sensor_is_off(
    continuous: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job itself, in this process; the loop finds nothing to do."""
    from cdc_assets.chain import continuous_loop
    from cdc_assets.defs import continuous_run

    catch_up(platform, instance)
    waiter: Any = FakeTopicWatch()
    work = continuous_loop.SourceWork(platform, continuous, lambda _: None, waiter)
    passes: list[CarriedPass] = []
    carry = work.carry

    def one_pass() -> CarriedPass:
        done = carry()
        done = carried(continuous, 0, 5) if not passes else done
        passes.append(done)
        return done

    monkeypatch.setattr(work, "carry", one_pass)
    monkeypatch.setattr(continuous_loop, "SourceWork", lambda *_: work)
    monkeypatch.setattr(continuous_run, "_ASK_SECONDS", 0.1)
    state: Any = type("State", (), {"instigator_name": keeper_name(continuous), "status": InstigatorStatus.STOPPED})
    states: list[Any] = []
    monkeypatch.setattr(instance, "all_instigator_state", lambda: states if len(passes) < 2 else [state])
    job = dg.Definitions(
        jobs=[continuous_run.build_continuous_job(continuous)], resources={"platform": platform}
    ).resolve_job_def(job_name(continuous))
    done = job.execute_in_process(instance=instance)
    assert done.success
    keys = {event.asset_key.to_user_string() for event in done.get_asset_materialization_events() if event.asset_key}
    assert keys == {"bronze/shop/bronze_lines", "silver/shop/silver_lines"}
    life = SignOfLife.read(instance, continuous)
    assert life is not None
    assert life.run_id == done.run_id
    assert digest(continuous) != digest(continuous.model_copy(update={"mode": "sensor"}))
