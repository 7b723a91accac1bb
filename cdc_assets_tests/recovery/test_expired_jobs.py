"""A job that asks for what bronze has given to the backup: it is brought back, once, and the job runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.recovery.past_records import bring_back_for_job
from cdc_assets.registry.errors import SparkRunError
from cdc_assets_tests.recovery.conftest import SHOP
from cdc_assets_tests.support.declared import declare_source
from spark.errors import BronzeExpiredError

EXPIRED = BronzeExpiredError("shop", "orders", "table orders: all of its events are asked for: cdc restore shop orders --past")


class NoServer(SparkSessions):
    """The jobs of these tests need no session."""

    @contextmanager
    @override
    def session(self, *, any_server: bool = False) -> Iterator[Any]:
        yield None


def job_that_expires(times: int) -> tuple[Callable[[Any, Any], str], list[str]]:
    calls: list[str] = []

    def job(_: Any, spec: str) -> str:
        calls.append(spec)
        if len(calls) <= times:
            raise EXPIRED
        return f"done {spec}"

    return job, calls


def test_it_runs_again_when_they_are_there() -> None:
    asked: list[BronzeExpiredError] = []
    job, calls = job_that_expires(1)
    sessions = NoServer("sc://nobody", bring_back=lambda error: not asked.append(error))
    assert sessions.run(job, "spec") == "done spec"
    assert (calls, [(each.source, each.table) for each in asked]) == (["spec", "spec"], [("shop", "orders")])


@pytest.mark.parametrize("bring_back", [None, lambda _: False])
def test_without_a_way_back_its_own_error_stands(bring_back: Callable[[BronzeExpiredError], bool] | None) -> None:
    job, calls = job_that_expires(9)
    with pytest.raises(SparkRunError, match="cdc restore shop orders --past"):
        NoServer("sc://nobody", bring_back=bring_back).run(job, "spec")
    assert calls == ["spec"]


def test_once_and_no_more() -> None:
    job, calls = job_that_expires(9)
    with pytest.raises(SparkRunError):
        NoServer("sc://nobody", bring_back=lambda _: True).run(job, "spec")
    assert len(calls) == 2


def test_a_table_that_has_all_is_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare_source(tmp_path, monkeypatch, SHOP.format(bucket=tmp_path / "bucket"))
    assert not bring_back_for_job(Platform(), EXPIRED)
    assert not bring_back_for_job(Platform(), BronzeExpiredError("shop", "nothing", "text"))
