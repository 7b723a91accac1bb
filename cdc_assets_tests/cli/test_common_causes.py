"""What many tables say in the same words is one line of `cdc status` and `cdc wait`, whatever each is called."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from cdc_assets.cli.verbs.status import Answers, judge_chain, print_chains
from cdc_assets.cli.verdict_lines import print_verdicts
from cdc_assets.proof.chain_verdicts import FAILED, NOT_RUN, WARNED, CheckVerdict
from cdc_assets.registry.errors import FailuresError

TABLES = [f"t{number}" for number in range(36)]
GONE = "topic core.shop.public.{0} is not at 127.0.0.1:9: cdc restart shop-mirror"


def printed(verdicts: list[CheckVerdict]) -> list[str]:
    out = StringIO()
    print_verdicts(Console(file=out, width=80), verdicts)
    return out.getvalue().splitlines()


def of(table: str, text: str, state: str = FAILED, name: str = "record_parity") -> CheckVerdict:
    return CheckVerdict(("bronze", "shop", f"bronze_{table}"), name, state, text)


def test_one_cause_of_thirty_six_tables_is_one_line() -> None:
    lines = printed([*(of(table, GONE.format(table)) for table in TABLES), of("orders", "3 keys differ")])
    assert lines == [
        f"bronze/shop/bronze_t0 record_parity and 35 more: {GONE.format('t0')}",
        "bronze/shop/bronze_orders record_parity: 3 keys differ",
    ]


def test_a_name_within_another_word_is_no_table() -> None:
    assert len(printed([of("id", "column id is gone"), of("paid", "column paid is gone"), of("key", "no key of paid")])) == 2
    assert len(printed([of("a", "a has 3 rows more"), of("b", "b has 4 rows more")])) == 2


def test_failures_warnings_and_sources_are_kept_apart() -> None:
    connectors = [CheckVerdict(("connector", s, s), "connector_running", FAILED, f"{s}-capture FAILED") for s in ("a", "b")]
    warned = [of(table, "rows of t", WARNED) for table in TABLES]
    lines = printed([of("x", "rows of t"), *warned, *connectors, of("y", "rows of t", NOT_RUN)])
    assert lines == [
        "bronze/shop/bronze_x record_parity: rows of t",
        "connector/a/a connector_running: a-capture FAILED",
        "connector/b/b connector_running: b-capture FAILED",
        "bronze/shop/bronze_y record_parity: rows of t",
        "bronze/shop/bronze_t0 record_parity and 35 more warns: rows of t",
    ]


def test_what_the_chains_say_is_one_line_and_json_has_all() -> None:
    rows = [{"source": "shop", "table": t, "silver_rows": 1, "error": GONE.format(t), "checks": ""} for t in TABLES]
    out = StringIO()
    print_chains(Console(file=out, width=80), rows)
    assert [line for line in out.getvalue().splitlines() if "is not at" in line] == [f"shop/t0 and 35 more: {GONE.format('t0')}"]
    answer = {"tables": rows}
    judge_chain(answer, Answers(checks=[of(table, GONE.format(table)) for table in TABLES]))
    assert [each["description"] for each in answer["checks"]] == [GONE.format(table) for table in TABLES]


def test_a_wait_names_every_table_and_the_cause_once() -> None:
    told = str(
        FailuresError.of_tables("silver", {f"shop/{table}": GONE.format(table) for table in ("a", "b")} | {"shop/c": "else"})
    )
    assert told == f"silver: 3 tables failed, all others are done:\n  shop/a, shop/b: {GONE.format('a')}\n  shop/c: else"
