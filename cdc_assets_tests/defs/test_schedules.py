"""A declared rhythm as cron says it: never less often. The oracle is Dagster's own iterator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import islice, pairwise

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from dagster._utils.schedules import cron_string_iterator

from cdc_assets.defs.rhythms import VOLUMETRY, checks_due, checks_of_counts, cron
from cdc_assets.registry.source_declaration import Source


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


@pytest.mark.slow
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
    counted = dg.AssetCheckKey(dg.AssetKey(["bronze", "shop", "bronze_daily"]), "record_parity")

    @dg.asset_check(asset=counted.asset_key, name=counted.name)
    def parity() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    five, now = timedelta(minutes=5), time.time()
    with dg.DagsterInstance.local_temp() as instance:
        assert checks_due(source, instance, five, now=now) is None
        assert (
            dg.Definitions(asset_checks=[parity])
            .get_implicit_global_asset_job_def()
            .execute_in_process(instance=instance)
            .success
        )
        due = checks_due(source, instance, five, now=now + 300)
        assert due
        told = [key.asset_key.path[2] for key in due if key.name in ("record_parity", "reconciled", "schema")]
        assert {name.split("_")[1] for name in told} == {"often"}
        assert checks_due(source, instance, five, now=now + 86_400) is None
    ((_, schedule),) = VOLUMETRY.build(source)
    assert schedule.cron_schedule == "*/5 * * * *"


def shop(**volumetry: str) -> Source:
    return Source.model_validate(
        {
            "source": "shop",
            "owners": ["team:data"],
            "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
            "volumetry": {"every": "5m", **volumetry},
            "tables": [{"name": "public.orders"}],
        }
    )


def told(source: Source, instance: dg.DagsterInstance, *, after: timedelta) -> str:
    """Why the tick so long from now asks for no run; empty: it asks for one."""
    ((_, schedule),) = VOLUMETRY.build(source)
    context = dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime.now(timezone.utc))
    now = time.time() + after.total_seconds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cdc_assets.defs.rhythms.why_dropped", lambda *_, **__: None)  # this process has just begun
        patch.setattr("cdc_assets.defs.rhythms.time.time", lambda: now)
        result = schedule.evaluate_tick(context)
    assert bool(result.run_requests) != bool(result.skip_message)
    return result.skip_message or ""


def evaluate(instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], **told: object) -> None:
    for key in keys:
        said = {"passed": True, "metadata": {}, **told}
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(asset_key=key.asset_key, check_name=key.name, **said)  # type: ignore[arg-type]
        )


def await_next_second() -> None:
    """SQLite keeps when a check was recorded in whole seconds: what was before would seem to have come since."""
    now = time.time()
    time.sleep(int(now) + 1 - now)


@pytest.mark.slow
def test_an_idle_source_is_counted_once_an_hour() -> None:
    """By the schedule's own evaluation: 24 counts an hour of two idle sources filled the list of runs."""
    source, minute = shop(), timedelta(minutes=1)
    keys = checks_of_counts(source)
    with dg.DagsterInstance.local_temp() as instance:
        for layer in ("bronze", "silver"):
            instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey([layer, "shop", f"{layer}_orders"])))
        assert told(source, instance, after=5 * minute) == ""  # nothing was ever counted
        await_next_second()
        evaluate(instance, keys[1:])
        assert told(source, instance, after=5 * minute) == ""  # one was not
        evaluate(instance, keys)
        skipped = [told(source, instance, after=n * 5 * minute) for n in range(1, 11)]
        assert all("nothing has come since all checks passed" in each for each in skipped)
        assert all("counted again within 60 min" in each for each in skipped)
        assert told(source, instance, after=60 * minute) == ""
        # Who wants every count has it.
        assert told(shop(idle_every="5m"), instance, after=5 * minute) == ""

        # A confirmation that silver is up to date is no news; what comes to bronze is.
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["silver", "shop", "silver_orders"])))
        assert told(source, instance, after=5 * minute)
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["bronze", "shop", "bronze_orders"])))
        assert told(source, instance, after=5 * minute) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "counted"),
    [
        ({"passed": False}, True),
        ({"passed": False, "severity": dg.AssetCheckSeverity.WARN}, False),
        ({"metadata": {"cdc/share": "3/127"}}, True),
        ({"metadata": {"cdc/share": "1/1"}}, False),
    ],
)
def test_what_is_red_or_was_looked_at_in_part_is_counted_at_each_tick(found: dict[str, object], counted: bool) -> None:
    source = shop()
    keys = checks_of_counts(source)
    with dg.DagsterInstance.local_temp() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["silver", "shop", "silver_orders"])))
        evaluate(instance, keys)
        evaluate(instance, keys[:1], **found)
        assert (told(source, instance, after=timedelta(minutes=5)) == "") is counted


@pytest.mark.slow
def test_no_run_begins_beside_one_of_the_same_job() -> None:
    source = shop()
    job = "volumetry_shop"
    with dg.DagsterInstance.local_temp() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["silver", "shop", "silver_orders"])))
        create_run_for_test(instance, job_name="another", status=dg.DagsterRunStatus.STARTED)
        assert told(source, instance, after=timedelta(minutes=5)) == ""
        run = create_run_for_test(instance, job_name=job, status=dg.DagsterRunStatus.STARTED)
        assert f"run {run.run_id} of {job} has not ended" in told(source, instance, after=timedelta(minutes=5))
        instance.report_run_failed(run)
        assert told(source, instance, after=timedelta(minutes=5)) == ""


@pytest.mark.slow
def test_a_run_that_failed_to_carry_is_news() -> None:
    source = shop()

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def job() -> None:
        nothing()

    with dg.DagsterInstance.local_temp() as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["silver", "shop", "silver_orders"])))
        evaluate(instance, checks_of_counts(source))
        assert told(source, instance, after=timedelta(minutes=5))
        instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE, tags={"cdc/source": "shop", "cdc/tables": "orders"})
        assert told(source, instance, after=timedelta(minutes=5)) == ""
