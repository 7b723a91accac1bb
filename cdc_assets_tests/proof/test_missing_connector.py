"""A source whose connector does not exist is said at once: nothing is read of it, and nobody waits for what cannot come."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import comparison, source_sides
from cdc_assets.proof.comparison_result import INCONCLUSIVE
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError, ServiceError
from cdc_assets.registry.source_declaration import Source

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.a"}, {"name": "public.b"}],
    }
)


class Connect:
    """Connect, which knows a connector, or none, or does not answer."""

    url = "http://connect:8083"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def config(self, name: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        assert name == names.connector_name(SOURCE)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            None,
            r"connector \S*shop\S* does not exist at http://connect:8083, so nothing of shop comes to the lake: \./cdc apply .*",
        ),
        ({"name": "shop"}, "the source was asked"),
        (ServiceError("Connect does not answer"), "the source was asked"),
    ],
)
def test_nothing_is_read_of_a_source_without_connector(monkeypatch: pytest.MonkeyPatch, answer: Any, why: str) -> None:
    """It waited until the time was over, five minutes of each source, with a snapshot held open."""

    def open_cut(*_: Any, **__: Any) -> Any:
        raise DatabaseError("the source was asked")

    monkeypatch.setattr(source_sides, "open_cut", open_cut)
    monkeypatch.setattr(comparison, "silver_state", lambda _: None)
    monkeypatch.setattr(comparison, "bronze_committed", lambda _: None)
    platform: Any = SimpleNamespace(lake="lake", core_connect=lambda _: Connect(answer), database=lambda _: None)
    results = comparison.compare_rows(Chain(platform, SOURCE), SOURCE.tables)
    assert {result.verdict for result in results.values()} == {INCONCLUSIVE}
    assert all(re.fullmatch(why, result.reason) for result in results.values()), results
