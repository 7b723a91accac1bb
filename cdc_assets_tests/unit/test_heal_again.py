"""`cdc reconcile --heal`: what still differs is asked for again, a few times, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.cli import reconcile
from cdc_assets.reconcile.result import DIFFERENT, EQUAL, NOT_COMPARED, TableResult
from cdc_assets.registry.models import Source

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.a"}, {"name": "public.b"}],
    }
)


@pytest.mark.parametrize(
    ("verdicts", "asked"),
    [
        ([EQUAL], 1),
        ([DIFFERENT, EQUAL], 2),  # the row was read while its change was not visible yet
        ([NOT_COMPARED, NOT_COMPARED, EQUAL], 1),  # on its way
        ([DIFFERENT] * 5, 3),
    ],
)
def test_asked_again_while_it_differs(monkeypatch: pytest.MonkeyPatch, verdicts: list[str], asked: int) -> None:
    calls: list[str] = []
    coming = iter(verdicts)
    clock = iter(range(100))

    def heal(platform: Any, source: Any, table: Any, result: TableResult) -> tuple[int, int]:
        calls.append(table.name)
        return 0, 1

    def compared(platform: Any, source: Any, tables: Any, **_: Any) -> dict[str, TableResult]:
        verdict = next(coming)
        return {t.id.table: TableResult(f"shop/{t.id.table}", verdict) for t in tables}  # type: ignore[arg-type]

    monkeypatch.setattr(reconcile, "heal", heal)
    monkeypatch.setattr(reconcile, "compare_rows", compared)
    monkeypatch.setattr(reconcile.time, "sleep", lambda _: None)
    monkeypatch.setattr(reconcile.time, "monotonic", lambda: float(next(clock)))
    found = {"a": TableResult("shop/a", DIFFERENT), "b": TableResult("shop/b", EQUAL)}
    results = reconcile._healed(None, SOURCE, list(SOURCE.tables), found, timeout=len(verdicts) - 0.5)  # type: ignore[arg-type]
    assert calls == ["public.a"] * asked
    assert (results["a"].verdict, results["a"].healed) == (verdicts[-1], 1)
