"""Runs of long ago go, with their events and logs; what assets and checks said last stays, and runs of others do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.compute_log_manager import ComputeIOType

from cdc_assets.defs.rhythms import OF_LOCATION, VARIABLE, build_old_runs, days_kept, remove_old_runs
from cdc_assets.registry.errors import SettingError

OURS, ALL_DAYS = "__repository__@cdc_assets", -1
NEVER_RED = dg.AssetCheckKey(dg.AssetKey("a"), "never_red")


@dg.asset
def a() -> None:
    """Has a check."""


@dg.asset
def b() -> None:
    """Has none."""


@dg.asset_check(asset=a)
def never_red() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def run(instance: dg.DagsterInstance, *parts: dg.AssetsDefinition, location: str = OURS) -> str:
    return str(dg.materialize([*parts], instance=instance, tags={OF_LOCATION: location}).run_id)


@pytest.mark.slow
def test_what_is_newest_stays(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    both, old, foreign = run(instance, a, b), run(instance, a), run(instance, a, location="another")
    checked, newest = run(instance, a, never_red), run(instance, a)
    manager = instance.compute_log_manager
    with manager.open_log_stream([old, "compute_logs", "a"], ComputeIOType.STDERR) as log:
        assert log is not None
        log.write("something")
    assert list(tmp_path.rglob(f"*{old}*/**/*.err"))
    assert remove_old_runs(instance, OURS, 30, [NEVER_RED]) == 0
    assert remove_old_runs(instance, OURS, ALL_DAYS, [NEVER_RED]) == 1
    # `both` is b's newest word, `checked` the check's, `newest` a's.
    assert {found.run_id for found in instance.get_runs()} == {both, foreign, checked, newest}
    assert instance.all_logs(old) == []
    assert not list(tmp_path.rglob(f"*{old}*/**/*.err"))
    event = instance.get_latest_materialization_event(dg.AssetKey("b"))
    assert event is not None
    assert event.run_id == both
    assert remove_old_runs(instance, OURS, ALL_DAYS, [NEVER_RED]) == 0


@pytest.mark.slow
def test_a_run_that_has_not_ended_stays(instance: dg.DagsterInstance) -> None:
    job = dg.define_asset_job("j").resolve(asset_graph=dg.Definitions(assets=[a]).resolve_asset_graph())
    begun = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags={OF_LOCATION: OURS})
    assert remove_old_runs(instance, OURS, ALL_DAYS) == 0
    assert instance.has_run(begun.run_id)


@pytest.mark.slow
def test_the_job_removes_what_its_location_has_left(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    job, schedule = build_old_runs([NEVER_RED])
    monkeypatch.setenv(VARIABLE, "30")
    repository = dg.Definitions(assets=[a, b], asset_checks=[never_red], jobs=[job], schedules=[schedule]).get_repository_def()
    resolved = repository.get_job(job.name)
    assert resolved.execute_in_process(instance=instance, tags={OF_LOCATION: OURS}).success
    assert not resolved.execute_in_process(instance=instance, raise_on_error=False).success


def test_days_are_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert days_kept() == 0
    monkeypatch.setenv(VARIABLE, "a month")
    with pytest.raises(SettingError, match="CDC_RUNS_KEPT=a month is no number of days"):
        days_kept()
