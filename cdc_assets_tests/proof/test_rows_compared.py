"""The age of the last comparison is part of what a table's checks say."""

from __future__ import annotations

import pytest

from cdc_assets.proof.chain_verdicts import (
    AT_KEY,
    FAILED,
    NOT_RUN,
    PART_KEY,
    PASSED,
    POSITION_KEY,
    WARNED,
    CheckVerdict,
    RowsCompared,
    of_metadata,
    verdict_text,
)

ASSET = ("silver", "shop", "silver_orders")
COMPARED = {"cdc/share": "1/1", "cdc/source_lsn": "0/1A2B", "cdc/silver_rows": 3}


def verdicts(*states: str) -> list[CheckVerdict]:
    return [CheckVerdict(ASSET, f"check_{number}", state) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-3, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3 * 3600 + 5, "3 h"), (86_399, "23 h"), (30 * 86_400, "30 d")],
)
def test_what_passes_says_when_its_rows_were_compared(seconds: float, told: str) -> None:
    compared = RowsCompared(1000.0)
    assert verdict_text(verdicts(PASSED), compared, now=1000 + seconds) == f"pass, rows compared {told} ago"
    assert compared.is_long_ago(1000 + seconds) == (seconds > 2 * 86_400)


def test_what_was_never_compared_does_not_pass_unsaid() -> None:
    assert verdict_text(verdicts(PASSED), None) == "pass, rows never compared"
    assert verdict_text(verdicts(PASSED, WARNED, NOT_RUN), None) == "pass, 1 warn, 1 not run, rows never compared"
    assert [verdict_text(verdicts(state), None) for state in (FAILED, NOT_RUN)] == ["1 failed", "not run"]
    part = RowsCompared(1000.0, part="keys > 1 and <= 7")
    assert verdict_text(verdicts(PASSED), part, now=1060.0) == "pass, a part of the rows compared 1 min ago"


def test_a_comparison_that_could_not_be_made_is_none() -> None:
    assert of_metadata(COMPARED, 7.0) == RowsCompared(7.0, "0/1A2B")
    assert of_metadata({}, 7.0) is None
    failed = {"cdc/share": "1/1", "cdc/error": "Connection refused"}
    assert of_metadata(failed, 7.0) is None
    assert of_metadata({**failed, AT_KEY: 3.0, POSITION_KEY: "p", PART_KEY: "1/8"}, 7.0) == RowsCompared(3.0, "p", "1/8")
