"""Idle tables stay fresh without a run; a table with news, in a run, or without silver is not confirmed."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from cdc_assets.defs.sensors.confirmations import confirmations
from cdc_assets.defs.sensors.dropped_ticks import why_dropped
from cdc_assets.defs.sensors.kafka_offsets import build_offsets_sensor, read_news
from cdc_assets.registry.models import Source
from cdc_assets.resources.platform import Platform
from cdc_assets_tests.support.caught_up import LINES, catch_up
from cdc_assets_tests.support.fakes import FakeKafka


def confirmed(
    source: Source, platform: Platform, instance: dg.DagsterInstance, *, after: float, busy: frozenset[str] = frozenset()
) -> dict[str, object]:
    """{table: row count} of the events at `after` seconds from now."""
    news, _ = read_news(instance, platform, source)
    events = confirmations(instance, platform, source, news, busy=busy, now=time.time() + after)
    return {event.asset_key.path[-1].removeprefix("silver_"): event.metadata["dagster/row_count"].value for event in events}


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
def test_a_confirmation_keeps_what_the_last_run_told(source: Source, platform: Platform, instance: dg.DagsterInstance) -> None:
    """The asset's page had been left with `cdc/events_folded 0`."""
    catch_up(platform, instance)
    key = dg.AssetKey(["silver", "shop", "silver_orders"])
    told = {"cdc/keys": "id", "cdc/delta_version": 7, "cdc/events_folded": 3, "cdc/rows_inserted": 3, "dagster/row_count": 3}

    @dg.asset(key=key)
    def orders() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={**told, "cdc/events_by_op": dg.MetadataValue.json({"c": 3})})

    run = dg.materialize([orders], instance=instance).run_id
    window = source.freshness.fail_after.total_seconds()
    for passed in (window, 2 * window):
        news, _ = read_news(instance, platform, source)
        events = confirmations(instance, platform, source, news, busy=frozenset({"lines"}), now=time.time() + passed)
        for event in events:
            instance.report_runless_asset_event(event)
        shown = {name: value.value for name, value in events[0].metadata.items()}
        assert shown.pop("cdc/last_run_at") == pytest.approx(time.time(), abs=120)
        assert shown == {
            **told,
            "cdc/events_folded": 0,
            "cdc/rows_inserted": 0,
            "cdc/events_by_op": {},
            "cdc/last_run": run,
        }


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
