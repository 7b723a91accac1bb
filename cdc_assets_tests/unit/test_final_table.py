"""The table that `cdc up` ends with says what its counts are of."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from cdc_assets.main_job.dagster_runs import CheckOutcome
from cdc_assets.main_job.final_table import line_of, print_table
from cdc_assets.registry.models import Source

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
        (("silver", "shop", table), "reconciled"): CheckOutcome(not said, said, metadata),
        (("bronze", "shop", table), "record_parity"): counted,
    }


def test_the_rows_of_a_part_do_not_pass_for_the_tables() -> None:
    """A range of 1/127 of the keys has 10,000 rows where the table has 1,270,000; and what a check says is no markup."""
    found = {
        **outcomes("whole", "1/1", 12),
        **outcomes("large", "keys > [/b] and <= 7", 10_000),
        **outcomes("bad", "1/1", 3, "1 key(s) differ: [/b]"),
    }
    out = StringIO()
    lines = [line_of(SOURCE, table, found, lag_seconds=1.0) for table in SOURCE.tables]
    print_table(Console(file=out, width=160), SOURCE, lines)
    told = {line.split()[0]: line for line in out.getvalue().splitlines() if line.split()}
    assert told["whole"].split()[1:6] == ["12", "1,270,000", "1,270,000", "1,270,000", "12"]
    assert told["large"].split()[1:8] == ["10,000", "*", "1,270,000", "1,270,000", "1,270,000", "10,000", "*"]
    assert told["*"].startswith("* large: rows of a part: keys > [/b] and <= 7; ")
    assert "silver/shop/bad: 1 key(s) differ: [/b]" in out.getvalue()
