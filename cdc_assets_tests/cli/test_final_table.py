"""The table that `cdc up` ends with says what its counts are of."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from cdc_assets.cli.main_job import CheckOutcome, line_of, print_table, verdicts_of
from cdc_assets.cli.verdict_lines import is_red
from cdc_assets.registry.source_declaration import Source, TopicSource

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.whole"}, {"name": "public.large"}, {"name": "public.bad"}],
    }
)


def outcomes(table: str, share: str, rows: int, said: str = "") -> Any:
    metadata = {"cdc/source_rows": rows, "cdc/silver_rows": rows, "cdc/share": share}
    counted = CheckOutcome(True, "", dict.fromkeys(("cdc/topic_records", "cdc/mirror_records", "cdc/bronze_rows"), 1_270_000))
    return {
        (("silver", "shop", f"silver_{table}"), "reconciled"): CheckOutcome(not said, said, metadata),
        (("bronze", "shop", f"bronze_{table}"), "record_parity"): counted,
    }


def test_the_rows_of_a_part_do_not_pass_for_the_tables() -> None:
    """A range of 1/127 of the keys has 10,000 rows where the table has 1,270,000; and what a check says is no markup."""
    found = {
        **outcomes("whole", "1/1", 12),
        **outcomes("large", "keys > [/b] and <= 7", 10_000),
        **outcomes("bad", "1/1", 3, "1 key(s) differ: [/b]"),
    }
    out = StringIO()
    verdicts = verdicts_of(found, found)
    lines = [line_of(SOURCE, table, found, verdicts, lag_seconds=1.0) for table in SOURCE.tables]
    print_table(Console(file=out, width=160), SOURCE, lines)
    told = {line.split()[0]: line for line in out.getvalue().splitlines() if line.split()}
    assert told["whole"].split()[1:6] == ["12", "1,270,000", "1,270,000", "1,270,000", "12"]
    assert told["large"].split()[1:8] == ["10,000", "*", "1,270,000", "1,270,000", "1,270,000", "10,000", "*"]
    assert told["*"].startswith("* large: rows of a part: keys > [/b] and <= 7; ")
    assert "silver/shop/silver_bad reconciled: 1 key(s) differ: [/b]" in out.getvalue()


@pytest.mark.parametrize(
    ("asset", "name"),
    [
        (("silver", "shop", "silver_whole"), "quarantine_empty"),
        (("mirror", "shop", "mirror_whole"), "nothing_lost"),
        (("ledger", "shop", "ledger_whole"), "bronze_fates"),
        (("connector", "shop", "connector_shop"), "events_flow"),
    ],
)
def test_one_red_check_of_the_chain_is_told_whatever_else_passed(asset: tuple[str, ...], name: str) -> None:
    """A poison record: quarantine_empty was red, and the row said pass."""
    found = {**outcomes("whole", "1/1", 12), (asset, name): CheckOutcome(False, "[1] record(s) in quarantine", {})}
    told, red = printed(found, found)
    assert f"{'/'.join(asset)} {name}: [1] record(s) in quarantine" in told
    assert red
    # A warning is told, and is no failure; a check that did not run is one.
    found[asset, name] = CheckOutcome(False, "not yet", {}, warns=True)
    told, red = printed(found, found)
    assert f"{name} warns: not yet" in told
    assert not red
    told, red = printed(outcomes("whole", "1/1", 12), found)
    assert f"{'/'.join(asset)} {name}: it did not run" in told
    assert red


def printed(found: Any, declared: Any) -> tuple[str, bool]:
    out, verdicts = StringIO(), verdicts_of(found, declared)
    line = line_of(SOURCE, SOURCE.tables[0], found, verdicts, lag_seconds=1.0)
    own = [each for each in verdicts if each.asset == ("connector", "shop", "connector_shop")]
    print_table(Console(file=out, width=160), SOURCE, [line], own)
    return out.getvalue(), is_red([*own, *line.verdicts])


def test_a_source_of_topics_has_no_question_marks() -> None:
    """Nobody can be asked for its rows, which is no count that failed; silver's are known."""
    tables = [{"name": "prices", "topic": "p", "envelope": "json", "keys": ["id"], "columns": {"id": "bigint not null"}}]
    source = TopicSource.model_validate({"source": "feeds", "kind": "topics", "cluster": "lake", "tables": tables})
    counted = CheckOutcome(True, "", dict.fromkeys(("cdc/topic_records", "cdc/mirror_records", "cdc/bronze_rows"), 7))
    found = {(("bronze", "feeds", "bronze_prices"), "record_parity"): counted}
    out = StringIO()
    line = line_of(source, source.tables[0], found, verdicts_of(found, found), lag_seconds=1.0, silver_rows=5)
    print_table(Console(file=out, width=160), source, [line])
    assert "prices - 7 7 7 5 - 1.0 pass" in " ".join(out.getvalue().split())
