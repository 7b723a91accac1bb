"""Idle tables stay fresh without a run; a table with news, in a run, or without silver is not confirmed."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.asset_specs import silver_version
from cdc_assets.defs.offsets_sensor import Lateness, build_offsets_sensor, read_news, rest_events, tables_at_rest
from cdc_assets.defs.rhythms import why_dropped
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.defs.conftest import SOURCE
from cdc_assets_tests.support.caught_up import LINES, catch_up
from cdc_assets_tests.support.fakes import FakeKafka


def confirmed(
    source: Source, platform: Platform, instance: dg.DagsterInstance, *, after: float, busy: frozenset[str] = frozenset()
) -> dict[str, object]:
    """{table: row count} of the events at `after` seconds from now."""
    news, _ = read_news(instance, platform, source)
    late = Lateness({}, 0.0).look((), time.time() + after)
    events = rest_events(instance, platform, source, tables_at_rest(news, busy), late)
    told = [event for event in events if not isinstance(event, dg.AssetCheckEvaluation)]
    return {event.asset_key.path[-1].removeprefix("silver_"): event.metadata["dagster/row_count"].value for event in told}


@pytest.mark.slow
def test_after_half_of_the_window_every_idle_table_is_confirmed_with_its_rows(
    source: Source, platform: Platform, instance: dg.DagsterInstance
) -> None:
    catch_up(platform, instance)
    half = source.freshness.fail_after.total_seconds() / 2
    assert confirmed(source, platform, instance, after=half / 2) == {}
    assert confirmed(source, platform, instance, after=half + 5) == {"orders": 3, "lines": 5}
    assert confirmed(source, platform, instance, after=half + 5, busy=frozenset({"lines"})) == {"orders": 3}


@pytest.mark.slow
def test_what_a_run_told_stays_the_newest_materialization(
    source: Source, platform: Platform, instance: dg.DagsterInstance
) -> None:
    """The asset's page had been left with `cdc/events_folded 0`."""
    catch_up(platform, instance)
    key = dg.AssetKey(["silver", "shop", "silver_orders"])
    told = {"cdc/keys": "id", "cdc/delta_version": 7, "cdc/events_folded": 3, "cdc/rows_inserted": 3, "dagster/row_count": 3}
    version = silver_version(platform.lake, source, source.table("orders"))
    assert version is not None

    @dg.asset(key=key)
    def orders() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata=told, data_version=dg.DataVersion(version))

    run = dg.materialize([orders], instance=instance).run_id
    window = source.freshness.fail_after.total_seconds()
    for passed in (window, 2 * window):
        late = Lateness({}, 0.0).look((), time.time() + passed)
        events = rest_events(instance, platform, source, {"orders"}, late)
        assert [type(event) for event in events] == [dg.AssetObservation, dg.AssetCheckEvaluation]
        for event in events:
            instance.report_runless_asset_event(event)
    event = instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    assert (event.run_id, {name: each.value for name, each in event.asset_materialization.metadata.items()}) == (run, told)


def test_a_table_with_news_is_not_confirmed(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    catch_up(platform, instance)
    lake_kafka.topics[LINES].logs[0].append((b"k", b"{}"))
    window = source.freshness.fail_after.total_seconds()
    assert confirmed(source, platform, instance, after=window) == {"orders": 3}


def test_a_table_that_silver_does_not_have_is_not_confirmed(
    source: Source, platform: Platform, instance: dg.DagsterInstance, lake_kafka: FakeKafka
) -> None:
    for topic in lake_kafka.topics.values():
        topic.logs[0].clear()
    assert confirmed(source, platform, instance, after=1e6) == {}
    context = dg.build_sensor_context(instance=instance, resources={"platform": platform})
    result = build_offsets_sensor(source).evaluate_tick(context)
    assert not result.run_requests
    assert not result.asset_events


def test_a_table_is_late_by_looks_without_a_gap() -> None:
    """A stack that stood still for a night does not begin with red checks."""
    first = Lateness({}, 0.0).look(["orders"], 1000.0)
    assert first.since == {"orders": 1000.0}
    assert first.look(["orders", "lines"], 1005.0).since == {"orders": 1000.0, "lines": 1005.0}
    assert first.look([], 1005.0).since == {}
    assert first.look(["orders"], 40_000.0).since == {"orders": 40_000.0}


@pytest.mark.slow
def test_where_the_topics_cannot_be_asked_tables_grow_late_and_say_so(
    source: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_up(platform, instance)
    hasty = Source.model_validate({**SOURCE, "freshness": {"fail_after": timedelta(milliseconds=2)}})

    def away(*_: object) -> None:
        raise CdcAssetsError("no broker answers")

    monkeypatch.setattr(FakeKafka, "states", away)
    cursor = None
    for _ in range(2):
        with dg.build_sensor_context(instance=instance, resources={"platform": platform}, cursor=cursor) as context:
            result = build_offsets_sensor(hasty).evaluate_tick(context)
        cursor = result.cursor
    assert result.skip_message == "no broker answers"
    assert sorted((event.asset_key.path[-1], event.passed) for event in result.asset_events) == [
        ("silver_lines", False),
        ("silver_orders", False),
    ]


@pytest.mark.parametrize(
    ("late", "minutes", "since_start", "dropped"),
    [
        (0, 10, 3600, False),
        (59, 10, 3600, False),
        (600, 10, 3600, True),
        (600, 1440, 3600, False),
        (0, 10, 119, True),
        (0, 10, 121, False),
        (0, 1440, 5, False),
    ],
)
def test_a_tick_of_the_past_or_of_a_start_is_dropped_where_the_next_is_near(
    late: int, minutes: int, since_start: int, dropped: bool
) -> None:
    now = datetime.now(timezone.utc)
    due, started = now - timedelta(seconds=late), now - timedelta(seconds=since_start)
    assert (why_dropped(due, minutes=minutes, now=now, started=started) is not None) == dropped
