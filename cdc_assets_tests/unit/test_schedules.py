"""A declared rhythm as cron says it: never less often. The oracle is Dagster's own iterator."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import islice, pairwise

import pytest
from dagster._utils.schedules import cron_string_iterator

from cdc_assets.sensors.rhythm import cron


@pytest.mark.parametrize("minutes", [1, 5, 7, 59, 60, 90, 300, 1439, 1440, 2880, 10_080, 44_640])
def test_it_is_never_later_than_declared(minutes: int) -> None:
    every = timedelta(minutes=minutes)
    begin = datetime(2026, 1, 30, 12, tzinfo=timezone.utc).timestamp()
    gaps = [b - a for a, b in pairwise(islice(cron_string_iterator(begin, cron(every), "UTC"), 60))]
    assert timedelta(0) < max(gaps) <= every


def test_once_a_day_is_once_a_day() -> None:
    begin = datetime(2026, 1, 30, 12, tzinfo=timezone.utc).timestamp()
    times = list(islice(cron_string_iterator(begin, cron(timedelta(days=1)), "UTC"), 5))
    assert {b - a for a, b in pairwise(times)} == {timedelta(days=1)}
