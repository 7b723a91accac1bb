"""The sensor against real Delta logs and a fake Kafka: what it asks for, and that nothing makes it lose a table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.instance_runs import CARRIED, failure_pauses
from cdc_assets.defs.offsets_sensor import build_offsets_sensor
from cdc_assets.defs.overall_jobs import REPLAY_JOB
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.caught_up import LINES, ORDERS, catch_up
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic


def tick(
    source: Source, platform: Platform, instance: dg.DagsterInstance, cursor: str | None = None
) -> tuple[list[set[str]], str | None, str | None]:
    """Tables of each run of bronze and silver requested, the new cursor, and why there is none."""
    result = look(source, platform, instance, cursor)
    return requested(result, "cdc/tables"), result.cursor, result.skip_message


def look(source: Source, platform: Platform, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorExecutionData:
    context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"platform": platform})
    return build_offsets_sensor(source).evaluate_tick(context)


def requested(result: dg.SensorExecutionData, tag: str) -> list[set[str]]:
    return [set(request.tags[tag].split(",")) for request in result.run_requests or () if tag in request.tags]


def backups(source: Source, platform: Platform, instance: dg.DagsterInstance) -> list[set[str]]:
    """Tables of each run of backups requested."""
    return requested(look(source, platform, instance), "cdc/backups")


def test_news_of_all_tables_is_one_run(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    runs, _, _ = tick(source, platform, instance)
    assert runs == [{"orders", "lines"}]


def test_caught_up_asks_for_nothing_and_says_so(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    catch_up(platform, instance)
    runs, _, why = tick(source, platform, instance)
    assert runs == []
    assert why == "nothing new in 2 topics"


def test_only_the_table_with_news_runs(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    catch_up(platform, instance)
    lake_kafka.topics[LINES].logs[0].append((b"k", b"{}"))
    assert tick(source, platform, instance)[0] == [{"lines"}]


def test_a_backlog_runs_by_itself(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    lake_kafka.topics[LINES] = FakeTopic("id-lines", {0: [(b"k", b"{}")] * 101})
    assert tick(source, platform, instance)[0] == [{"lines"}, {"orders"}]


@pytest.mark.parametrize(("every", "due"), [(0, True), (3600, False)])
def test_a_backup_is_a_run_of_its_own_and_no_news_wait_for_it(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka, every: int, due: bool
) -> None:
    catch_up(platform, instance)
    append_bronze(Path(platform.lake) / "bronze/shop", ORDERS, "orders", "id-orders", 3, 4, version=2)
    lake_kafka.topics[LINES].logs[0].append((b"k", b"{}"))
    declared = often(source, timedelta(seconds=every))
    carried, *copied = look(declared, platform, instance).run_requests or ()
    assert {key.path[0] for key in carried.asset_selection or ()} == {"bronze", "silver"}
    paths = [[key.path for key in request.asset_selection or ()] for request in copied]
    assert paths == ([[["backup", "shop", "backup_orders"]]] if due else [])


def test_a_backup_under_way_holds_nothing_up_and_is_not_asked_for_again(
    source: Source, platform: Platform, instance: dg.DagsterInstance
) -> None:
    catch_up(platform, instance)
    append_bronze(Path(platform.lake) / "bronze/shop", ORDERS, "orders", "id-orders", 3, 4, version=2)
    assert backups(often(source), platform, instance) == [{"orders"}]
    start_a_run(instance, "cdc/backups", "orders")
    assert backups(often(source), platform, instance) == []
    assert {"orders"} in tick(often(source), platform, instance)[0]


def test_a_backup_that_fails_is_asked_for_later_and_holds_nothing_up(
    source: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up(platform, instance)
    append_bronze(Path(platform.lake) / "bronze/shop", ORDERS, "orders", "id-orders", 3, 4, version=2)
    ended = fail_a_run(instance, "orders", tag="cdc/backups")
    monkeypatch.setattr("cdc_assets.defs.offsets_sensor.time.time", lambda: ended + 4)
    assert backups(often(source), platform, instance) == []
    assert {"orders"} in tick(often(source), platform, instance)[0]
    monkeypatch.setattr("cdc_assets.defs.offsets_sensor.time.time", lambda: ended + 6)
    assert backups(often(source), platform, instance) == [{"orders"}]


def start_a_run(instance: dg.DagsterInstance, tag: str, tables: str) -> None:
    """One of these tables that does not end."""

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def job() -> None:
        nothing()

    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={"cdc/source": "shop", tag: tables})


def often(source: Source, every: timedelta = timedelta(0)) -> Source:
    """Its backup is due so long after the last."""
    assert source.backup is not None
    return source.model_copy(update={"backup": source.backup.model_copy(update={"every": every})})


def test_a_backup_of_the_epoch_before_is_behind(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    """The new epoch has fewer records than the backup holds of all."""
    catch_up(platform, instance)
    assert backups(often(source), platform, instance) == []
    metadata = {"dagster/row_count": 5, "cdc/epoch": 0, "cdc/epoch_records": 5}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey(["backup", "shop", "backup_lines"]), metadata=metadata)
    )
    assert backups(often(source), platform, instance) == []
    lake = Path(platform.lake)
    append_bronze(lake / "bronze/shop", LINES, "lines", "id-lines", 3, 5, version=2, epoch=1)
    write_silver(lake / "silver/shop/lines", LINES, "lines", "id-lines", 2, epoch=1)
    assert backups(often(source), platform, instance) == [{"lines"}]


@pytest.mark.parametrize(("copied", "asked"), [(4, [{"lines"}]), (5, [])])
def test_a_backup_that_lacks_some_of_an_ended_epoch_is_behind(
    source: Source, platform: Platform, instance: dg.DagsterInstance, copied: int, asked: list[set[str]]
) -> None:
    """The epoch that followed has no record yet."""
    catch_up(platform, instance)
    lake = Path(platform.lake)
    append_bronze(lake / "bronze/shop", LINES, "lines", "id-lines", 5, 5, version=2, epoch=1)
    write_silver(lake / "silver/shop/lines", LINES, "lines", "id-lines", 0, epoch=1)
    metadata = {"dagster/row_count": copied, "cdc/epoch": 0, "cdc/epoch_records": copied}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(dg.AssetKey(["backup", "shop", "backup_lines"]), metadata=metadata)
    )
    assert backups(often(source), platform, instance) == asked


def test_silver_that_stayed_behind_is_asked_for_without_new_records(
    source: Source, platform: Platform, instance: dg.DagsterInstance
) -> None:
    catch_up(platform, instance)
    append_bronze(Path(platform.lake) / "bronze/shop", ORDERS, "orders", "id-orders", 3, 4, version=2)
    assert {"orders"} in tick(source, platform, instance)[0]


def test_a_table_in_a_run_is_not_asked_for_again(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    start_a_run(instance, "cdc/tables", "lines")
    assert tick(source, platform, instance)[0] == [{"orders"}]


@pytest.mark.parametrize("cursor", [None, "", "nonsense", "{}", '{"waiting_since": 3}'])
def test_a_lost_or_broken_cursor_loses_nothing(
    source: Source, platform: Platform, instance: dg.DagsterInstance, cursor: str | None
) -> None:
    assert tick(source, platform, instance, cursor)[0] == [{"orders", "lines"}]


def test_a_recreated_topic_asks_for_a_run_that_will_fail_by_name(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    catch_up(platform, instance)
    lake_kafka.topics[LINES] = FakeTopic("another-id", {0: [(b"k", b"{}")] * 5})
    assert tick(source, platform, instance)[0] == [{"lines"}]


def test_a_topic_that_is_not_there_yet_is_waited_for(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    del lake_kafka.topics[LINES]
    assert tick(source, platform, instance)[0] == [{"orders"}]


def fail_a_run(instance: dg.DagsterInstance, tables: str, carried: tuple[str, ...] = (), *, tag: str = "cdc/tables") -> float:
    """A run of these tables that fails after it has brought the carried ones to silver; when it ended."""

    @dg.op
    def fail(context) -> None:  # Dagster cannot read a postponed annotation of a context
        for table in carried:
            context.log_event(dg.AssetMaterialization(dg.AssetKey(["silver", "shop", f"silver_{table}"])))
        raise ValueError("planted")

    @dg.job
    def job() -> None:
        fail()

    job.execute_in_process(instance=instance, tags={"cdc/source": "shop", tag: tables}, raise_on_error=False)
    return instance.get_run_records(limit=1)[0].end_time or 0.0


def test_after_failures_a_table_pauses_longer_each_time(source: Source, instance: dg.DagsterInstance) -> None:
    pauses = []
    for _ in range(3):
        ended = fail_a_run(instance, "lines")
        pauses.append({table: round(pause) for table, pause in failure_pauses(instance, source, now=ended)[CARRIED].items()})
    assert pauses == [{"lines": 5}, {"lines": 10}, {"lines": 20}]


def test_a_pause_ends_when_somebody_has_acted(source: Source, instance: dg.DagsterInstance) -> None:
    """A table that a replay had mended stood for up to five minutes more, and nobody said so."""
    for _ in range(3):
        ended = fail_a_run(instance, "lines")
    assert round(failure_pauses(instance, source, now=ended)[CARRIED]["lines"]) == 20
    instance.report_runless_asset_event(dg.AssetObservation(dg.AssetKey(names.COMMANDS), description="cdc replay shop lines"))
    assert failure_pauses(instance, source, now=ended)[CARRIED] == {"lines": 0.0}
    # It fails once more: what was done before is no act behind that.
    ended = fail_a_run(instance, "lines")
    assert round(failure_pauses(instance, source, now=ended)[CARRIED]["lines"]) == 40

    @dg.op
    def mend() -> None: ...

    @dg.job(name=REPLAY_JOB)
    def job() -> None:
        mend()

    job.execute_in_process(instance=instance)
    assert failure_pauses(instance, source, now=ended)[CARRIED] == {"lines": 0.0}


def test_a_table_that_fails_does_not_hold_the_others_up(
    source: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = fail_a_run(instance, "orders,lines", carried=("orders",))
    assert set(failure_pauses(instance, source, now=ended)[CARRIED]) == {"lines"}
    monkeypatch.setattr("cdc_assets.defs.offsets_sensor.time.time", lambda: ended + 4)
    assert tick(source, platform, instance)[0] == [{"orders"}]
    monkeypatch.setattr("cdc_assets.defs.offsets_sensor.time.time", lambda: ended + 6)
    assert tick(source, platform, instance)[0] == [{"lines"}, {"orders"}]
