"""What the main job says of runs that fail while it waits, by real runs in a real instance."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from cdc_assets.cli import main_job
from cdc_assets.cli.main_job import FailedRuns
from cdc_assets.registry.errors import FailuresError

BROKEN: set[str] = set()


@dg.op
def silver_bank() -> None:
    if "silver_bank" in BROKEN:
        try:
            raise KeyError("no such method")
        except KeyError as error:
            raise ValueError("fold failed") from error


@dg.job
def folding() -> None:
    silver_bank()


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(main_job, "_ASK_SECONDS", 0.0)
    monkeypatch.setenv("CDC_DAGSTER_URL", "http://127.0.0.1:1")
    with dg.DagsterInstance.ephemeral() as made:
        yield made
    BROKEN.clear()


def run(instance: dg.DagsterInstance, *, broken: bool) -> str:
    BROKEN.clear()
    BROKEN.update({"silver_bank"} if broken else ())
    return folding.execute_in_process(instance=instance, raise_on_error=False).run_id


@pytest.mark.slow
def test_each_is_told_once_and_the_sixth_in_a_row_ends_it(instance: dg.DagsterInstance) -> None:
    told: list[str] = []
    run(instance, broken=True)  # Before anybody waits.
    failed = FailedRuns(instance, told.append)
    failed.look()
    assert told == []
    page = run(instance, broken=True)
    failed.look()
    failed.look()
    assert told == [f"silver_bank failed, the sensor asks again: KeyError: 'no such method'; see http://127.0.0.1:1/runs/{page}"]
    for _ in range(4):
        run(instance, broken=True)
        failed.look()
    run(instance, broken=False)
    for _ in range(5):
        run(instance, broken=True)
    failed.look()
    assert len(told) == 10
    last = run(instance, broken=True)
    with pytest.raises(FailuresError, match=rf"silver_bank failed 6 times in a row: KeyError: .*/runs/{last} and \./cdc status"):
        failed.look()
