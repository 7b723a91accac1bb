"""What a channel is told: each change of a check once, each failed run once."""

from __future__ import annotations

from dataclasses import asdict

from cdc_assets.deploy.alert_channels import Alert, FailedRun, ToldChanges, as_told, changes
from cdc_assets.proof.chain_verdicts import FAILED, NOT_RUN, PASSED, WARNED, CheckVerdict

ASSET = ("silver", "shop", "silver_orders")
PLACE = "silver/shop/silver_orders reconciled"


def news(state: str, told: ToldChanges, *runs: FailedRun) -> tuple[list[tuple[str, str]], ToldChanges]:
    verdict = CheckVerdict(ASSET, "reconciled", state, "3 keys differ")
    alerts, after = changes([verdict], runs, told, mend=lambda verdict: f"cdc mend {verdict.name}", page="http://dagster")
    assert changes([verdict], runs, after, mend=lambda _: "", page="") == ([], after), "told twice"
    assert as_told(asdict(after)) == after
    return [(alert.state, alert.place) for alert in alerts], after


def test_a_check_is_told_when_it_changes() -> None:
    told = ToldChanges()
    for state, expected in [
        (PASSED, []),
        (FAILED, [("red", PLACE)]),
        (FAILED, []),
        (NOT_RUN, []),
        (FAILED, []),
        (WARNED, [("green", PLACE)]),
        (PASSED, []),
        (FAILED, [("red", PLACE)]),
    ]:
        found, told = news(state, told)
        assert found == expected
    assert changes([], [], told, mend=lambda _: "", page="") == ([], ToldChanges()), "its source is gone"


def test_a_failed_run_is_told_once() -> None:
    told = ToldChanges(runs_up_to=10.0)
    early, first, second, later = (
        FailedRun(name, "job", at, "why") for name, at in (("a", 9.0), ("b", 10.0), ("c", 10.0), ("d", 11.0))
    )
    found, told = news(PASSED, told, early, first)
    assert found == [("failed", "run of job")]
    assert told.runs == ("b",)
    found, told = news(PASSED, told, early, first, second)
    assert len(found) == 1
    found, told = news(PASSED, told, early, first, second, later)
    assert (len(found), told.runs_up_to, told.runs) == (1, 11.0, ("d",))


def test_the_text_holds_what_mends_it() -> None:
    [alert], _ = changes(
        [CheckVerdict(ASSET, "reconciled", FAILED, "x" * 5000)],
        [],
        ToldChanges(),
        mend=lambda _: "cdc reconcile",
        page="http://dagster",
    )
    assert alert.text().startswith(f"RED {PLACE}: xxx")
    assert len(alert.text()) < 1300
    assert "\n  mend: cdc reconcile\n  http://dagster/assets/silver/shop/silver_orders?view=checks" in alert.text()
    assert Alert("green", PLACE).text() == f"GREEN {PLACE}"
