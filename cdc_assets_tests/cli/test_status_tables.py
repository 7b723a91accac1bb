"""`cdc status` on a terminal of 80 columns: names, ports and verdicts are whole."""

from __future__ import annotations

import time
from io import StringIO

import pytest
from rich.console import Console

from cdc_assets.cli.verbs.status import print_chains, print_components

COMPONENTS = [
    {
        "name": name,
        "health": "healthy",
        "pid": 1234567,
        "address": f"127.0.0.1:{25340 + number}",
        "rss_bytes": 1234 * 2**20,
        "restarts": number,
        "since": 1.0,
        "detail": "",
        "log": f"/home/x/.cdc/logs/{name}.log",
    }
    for number, name in enumerate(("dagster-webserver", "spark-connect", "core-connect"))
]
TABLES = [
    {
        "source": "bank",
        "table": table,
        "mirror_lag": 0,
        "bronze_lag": lag,
        "bronze_records": 100_200,
        "silver_lag": 0,
        "silver_rows": 100_000,
        "history_lag": None,
        "history_versions": None,
        "error": error,
        "checks": checks,
        "rows_compared": {"at": time.time() - 3590, "position": "0/1A2B", "part": "1/1"},
    }
    for table, lag, error, checks in (
        ("pgbench_accounts", 0, None, "pass, 2 not run, rows compared 59 min ago"),
        ("pgbench_history", 1234, "the topic is gone [x]", "1 failed, 2 warn"),
    )
]


@pytest.mark.parametrize("width", [80, *range(100, 200, 4), 240])
def test_nothing_that_is_looked_for_is_cut(width: int) -> None:
    out = StringIO()
    console = Console(file=out, width=width, highlight=False)
    print_components(console, COMPONENTS, "/home/x/.cdc")
    print_chains(console, TABLES)
    told = out.getvalue()
    assert max(len(line.rstrip()) for line in told.splitlines()) <= width
    for wanted in ("dagster-webserver", "127.0.0.1:25342", "1234567", "pgbench_accounts", "1 failed, 2 warn", "1234"):
        assert any(wanted in line for line in told.splitlines()), (wanted, told)
    assert "bank/pgbench_history: the topic is gone [x]" in told
    assert "…" not in told
