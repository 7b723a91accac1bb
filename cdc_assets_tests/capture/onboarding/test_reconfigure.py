"""A kind is told of the very source that it goes to: it publishes and defines tables on the way in, and not on the way out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from cdc_assets.capture.onboarding import connector_steps
from cdc_assets.capture.onboarding.onboarding_state import OnboardingWork
from cdc_assets.registry.source_declaration import Source


class Connect:
    """A connector that has one of two tables, and takes any config."""

    def __init__(self) -> None:
        self.put: list[str] = []

    def config(self, _: str) -> dict[str, str]:
        return {"table.include.list": r"shop\.old"}

    def validate(self, _: object) -> dict[str, list[str]]:
        return {}

    def put_config(self, _: str, config: dict[str, str]) -> None:
        self.put.append(config["table.include.list"])

    def resume(self, _: str) -> None: ...

    def wait_running(self, _: str) -> None: ...


@pytest.mark.parametrize("way", ["after", "before"])
def test_the_kind_sees_which_way_it_goes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    database = {"kind": "mariadb", "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": "shop.old"}, {"name": "shop.new"}]
    after = Source.model_validate({"source": "shop", "database": database, "tables": tables})
    before = after.model_copy(update={"tables": after.tables[:1]})
    told: list[object] = []
    kind = SimpleNamespace(halt=lambda _, to: told.append(to) or 0.0, update_capture=lambda _, to: told.append(to))
    connect = Connect()
    state = SimpleNamespace(tables=("shop.new",))
    work = cast(OnboardingWork, SimpleNamespace(core_connect=connect, state=state, kind=kind, after=after, before=before))
    source = getattr(work, way)
    connector_steps.reconfigure(work, source)
    assert [each is source for each in told] == [True, True]
    assert ("new" in connect.put[0]) == (way == "after")
