"""A declared rhythm as cron says it: never less often. The oracle is Dagster's own iterator."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from itertools import islice, pairwise

import dagster as dg
import pytest
from dagster._utils.schedules import cron_string_iterator

from cdc_assets.registry.models import Source
from cdc_assets.sensors.rhythm import cron
from cdc_assets.sensors.volumetry_schedule import build_volumetry_job, build_volumetry_schedule, checks_due


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


def test_a_table_has_the_rhythm_that_it_declares() -> None:
    """A table declared once a day was counted and compared at the rhythm of the source's other tables."""
    source = Source.model_validate(
        {
            "source": "shop",
            "owners": ["team:data"],
            "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
            "volumetry": {"every": "5m"},
            "tables": [{"name": "public.often"}, {"name": "public.daily", "volumetry": {"every": "1d"}}],
        }
    )
    counted = dg.AssetCheckKey(dg.AssetKey(["bronze", "shop", "daily"]), "record_parity")

    @dg.asset_check(asset=counted.asset_key, name=counted.name)
    def parity() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    five, now = timedelta(minutes=5), time.time()
    with dg.DagsterInstance.ephemeral() as instance:
        assert checks_due(source, instance, five, now=now) is None
        assert (
            dg.Definitions(asset_checks=[parity])
            .get_implicit_global_asset_job_def()
            .execute_in_process(instance=instance)
            .success
        )
        due = checks_due(source, instance, five, now=now + 300)
        assert due
        assert {key.asset_key.path[2] for key in due if key.name in ("record_parity", "reconciled", "schema")} == {"often"}
        assert checks_due(source, instance, five, now=now + 86_400) is None
    assert build_volumetry_schedule(source, build_volumetry_job(source)).cron_schedule == "*/5 * * * *"
