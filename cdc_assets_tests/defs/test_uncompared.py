"""What inconclusive: a warning that fails no run, red when it lasts or when a difference was found before."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.defs import volumetry_checks
from cdc_assets.proof import comparison
from cdc_assets.proof.chain_verdicts import of_metadata
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, TableResult
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.defs.conftest import SOURCE
from cdc_assets_tests.support.counted_check import check

WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


def test_once_it_warns_and_lasting_it_is_red(
    source: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was as red as a difference, at once. Nobody answers at the database's address."""
    went, first = check(source, platform, instance)
    assert (went, first.passed, first.severity) == (True, False, WARN)
    assert (first.description or "").startswith("inconclusive: ")
    assert "No difference was found; it is tried again (since" in (first.description or "")
    assert (first.description or "").endswith("red after 1h): cdc reconcile shop.orders")
    later = datetime.now(timezone.utc) + timedelta(minutes=59)
    monkeypatch.setattr(volumetry_checks, "datetime", type("Clock", (datetime,), {"now": staticmethod(lambda _: later)}))
    assert check(source, platform, instance)[1].severity == WARN
    later += timedelta(minutes=2)
    went, lasting = check(source, platform, instance)
    assert (went, lasting.passed, lasting.severity) == (False, False, ERROR)
    assert "but this lasts since" in (lasting.description or "")


@pytest.mark.slow
def test_how_long_it_may_last_is_declared(
    platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the source, or of a table, whose own declaration stands in the source's place."""
    orders = {"name": "public.orders", "reconciliation": {"red_after": "5m"}}
    patient = Source.model_validate({**SOURCE, "reconciliation": {"red_after": "2d"}})
    hasty = Source.model_validate({**SOURCE, "reconciliation": {"red_after": "2d"}, "tables": [orders]})
    _, first = check(patient, platform, instance)
    assert (first.severity, "red after 2d" in (first.description or "")) == (WARN, True)
    later = datetime.now(timezone.utc) + timedelta(hours=47)
    monkeypatch.setattr(volumetry_checks, "datetime", type("Clock", (datetime,), {"now": staticmethod(lambda _: later)}))
    assert [check(each, platform, instance)[1].severity for each in (patient, hasty)] == [WARN, ERROR]
    later += timedelta(hours=2)
    assert check(patient, platform, instance)[1].severity == ERROR


@pytest.mark.slow
def test_it_hides_no_difference_and_a_comparison_ends_it(
    source: Source, platform: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdict(word: str) -> dg.AssetCheckSeverity:
        with monkeypatch.context() as patch:
            result = TableResult(
                "shop/orders", word, lsn="0/1A2B", source_rows=1, silver_rows=1, keys_differing=int(word == DIFFERENT)
            )
            patch.setattr(comparison, "compare_rows", lambda *_, **__: {"orders": result})
            return check(source, platform, instance)[1].severity

    assert verdict(DIFFERENT) == ERROR
    for _ in range(2):
        _, hidden = check(source, platform, instance)
        assert (hidden.severity, "found a difference" in (hidden.description or "")) == (ERROR, True)
    verdict(EQUAL)
    _, again = check(source, platform, instance)
    assert again.severity == WARN
    assert datetime.fromtimestamp(again.metadata[volumetry_checks.SINCE_KEY].value, timezone.utc).year >= 2026  # type: ignore[arg-type]
    # When its rows were compared last stays told, however long they cannot be.
    for _ in range(2):
        _, again = check(source, platform, instance)
        compared = of_metadata({name: value.value for name, value in again.metadata.items()}, at=0.0)
        assert compared is not None
        assert (compared.position, compared.part, compared.at > 1.7e9) == ("0/1A2B", "1/1", True)
