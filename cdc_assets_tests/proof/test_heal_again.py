"""`cdc reconcile --heal`: what still differs is asked for again, a few times, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import reconcile
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, TableResult
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import Source

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
        ([INCONCLUSIVE, INCONCLUSIVE, EQUAL], 1),  # on its way
        ([DIFFERENT] * 5, 3),
    ],
)
def test_asked_again_while_it_differs(monkeypatch: pytest.MonkeyPatch, verdicts: list[str], asked: int) -> None:
    calls: list[str] = []
    coming = iter(verdicts)
    clock = iter(range(100))

    def heal(_: Any, table: Any, __: TableResult) -> tuple[int, int]:
        calls.append(table.name)
        return 0, 1

    def compared(tables: Any) -> dict[str, TableResult]:
        verdict = next(coming)
        return {t.id.table: TableResult(f"shop/{t.id.table}", verdict) for t in tables}  # type: ignore[arg-type]

    monkeypatch.setattr(reconcile, "heal", heal)
    monkeypatch.setattr(reconcile.time, "sleep", lambda _: None)
    monkeypatch.setattr(reconcile.time, "monotonic", lambda: float(next(clock)))
    found = {"a": TableResult("shop/a", DIFFERENT), "b": TableResult("shop/b", EQUAL)}
    timeout = len(verdicts) - 0.5
    results = reconcile._heal_and_compare(Chain(None, SOURCE), list(SOURCE.tables), found, timeout, compared)  # type: ignore[arg-type]
    assert calls == ["public.a"] * asked
    assert (results["a"].verdict, results["a"].healed) == (verdicts[-1], 1)


@pytest.mark.parametrize("why", ["", "shop/a has no key"])
def test_what_cannot_be_healed_is_not_compared_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    """A phantom that no event deletes, a table without a key: five minutes of scans at the source would show the same."""

    def heal(*_: Any) -> tuple[int, int]:
        if why:
            raise DatabaseError(why)
        return 0, 0

    monkeypatch.setattr(reconcile, "heal", heal)
    found = {"a": TableResult("shop/a", DIFFERENT), "b": TableResult("shop/b", EQUAL)}
    results = reconcile._heal_and_compare(Chain(None, SOURCE), list(SOURCE.tables), found, 300, lambda _: {}[""])  # type: ignore[arg-type]
    assert (results["a"].verdict, results["a"].healed) == (DIFFERENT, 0)
    assert (why or "no event can be read again") in capsys.readouterr().err


def test_compared_again_in_the_way_that_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same share, and never the primary where a standby was to be read."""
    ways: list[ComparisonRequest] = []
    verdicts = (DIFFERENT, EQUAL)

    def compared(_: Any, tables: Any, scope: ComparisonRequest) -> dict[str, TableResult]:
        ways.append(scope)
        return {t.id.table: TableResult("shop/a", verdicts[len(ways) - 1], source_rows=1, silver_rows=1) for t in tables}

    monkeypatch.setattr(reconcile, "_selection", lambda _: [(SOURCE, list(SOURCE.tables[:1]))])
    monkeypatch.setattr("cdc_assets.registry.settings.export_stack_environment", lambda: None)
    monkeypatch.setattr(reconcile, "heal", lambda *_: (1, 0))
    monkeypatch.setattr(reconcile, "compare_rows", compared)
    asked = ["reconcile", "shop.a", "--heal", "--share", "2/8", "--standby", "r1:5432", "--two-step"]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert len(ways) == 2
    assert ways[0] == ways[1] == ComparisonRequest({"a": (1, 8)}, 300.0, two_step=True, standby="r1:5432")
