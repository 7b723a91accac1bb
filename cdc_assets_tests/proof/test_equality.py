"""What must hold before a table is called equal, whichever way its rows were compared."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import reconcile as command
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_cut import BinlogRowsCut
from cdc_assets.proof import comparison_result
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, TableResult
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.declared import declare
from spark.proof.bucket_sums import Suspect
from spark.proof.row_text import WHOLE, RowText
from spark.specs import Column, SilverSpec

AT = {"lsn": "binlog.000001:1505495", "buckets": 6}
ASIDE = "rows are in doubt by 1 record in quarantine (cdc quarantine list)"
TEXT = RowText(SilverSpec("s", "t", "-", "-", (Column("id", "int(11)", False, dialect="mariadb"),), ("id",)))


@pytest.mark.parametrize(
    ("figures", "doubt"),
    [
        ({"source_rows": 6, "silver_rows": 4}, "6 rows were compared of the source, and 4 of silver"),
        ({"source_rows": 4, "silver_rows": 4, "counted": 6}, "the source's sums are of 4 rows, and it counts 6"),
        ({"source_rows": 6, "silver_rows": 6, "counted": 6, "set_aside": 1}, ASIDE),
        (
            {"source_rows": 9, "silver_rows": 6, "method": "two-step", "suspects": 2},
            "9 rows were compared of the source, and 6 of",
        ),
    ],
)
def test_a_table_is_not_called_equal_against_its_figures(figures: dict[str, Any], doubt: str) -> None:
    told = TableResult("shop/t", EQUAL, **AT, **figures)
    assert (told.verdict, told.equal) == (INCONCLUSIVE, False)
    assert told.sentence().startswith(f"inconclusive: no row was found to differ, but {doubt}")
    # Nor is one that was not equal, and becomes it.
    different = TableResult("shop/t", DIFFERENT, **AT, **figures)
    assert different.verdict == DIFFERENT
    assert replace(different, verdict=EQUAL).verdict == INCONCLUSIVE


@pytest.mark.parametrize(
    "figures",
    [
        {"source_rows": 6, "silver_rows": 6, "counted": 6},
        {"source_rows": 0, "silver_rows": 0, "counted": 0},
        {"source_rows": 6, "silver_rows": 6, "looked_up": 2},
        # A row that came between the two readings was a suspect, and was cleared.
        {"source_rows": 9, "silver_rows": 8, "method": "two-step", "suspects": 2},
    ],
)
def test_a_table_whose_figures_agree_is(figures: dict[str, Any]) -> None:
    assert TableResult("shop/t", EQUAL, **AT, **figures).equal


def test_the_command_ends_with_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It said `equal at binlog.000001:1505495, 6 rows in the source, 4 in silver`, and ended with 0."""
    place = "{kind: postgresql, host: h, dbname: d, user: u, password: {secret: s}}"
    declare(tmp_path, monkeypatch, f"source: shop\ndatabase: {place}\ntables: [{{name: public.t}}]\n")
    told = TableResult("shop/t", EQUAL, **AT, source_rows=6, silver_rows=4)
    monkeypatch.setattr(command, "compare_rows", lambda *_: {"t": told})
    monkeypatch.setattr(command, "prove_histories", lambda *_, **__: {})
    ended = CliRunner().invoke(app, ["reconcile", "shop", "-o", "json"])
    assert (ended.exit_code, json.loads(ended.stdout)[0]["verdict"]) == (2, INCONCLUSIVE)


@pytest.mark.parametrize("in_bronze", [True, False])
def test_rows_at_the_cut_are_counted_where_bronze_speaks_for_silver(monkeypatch: pytest.MonkeyPatch, in_bronze: bool) -> None:
    """A row that a commit which the cut does not see has deleted (or added): the numbers are those of the cut."""
    row = ("1;", 7)
    source, ours = (Counter([row]), Counter[Any]()) if in_bronze else (Counter[Any](), Counter([row]))
    answer = Suspect(7 if in_bronze else None, {"id": "1"} if in_bronze else None, None if in_bronze else {"id": "1"}, True, 1)
    spark = SimpleNamespace(compare=lambda *_: {"1;": answer})
    platform: Any = SimpleNamespace(spark=lambda: spark)
    compared: Any = SimpleNamespace(
        chain=SimpleNamespace(platform=platform), text=TEXT, table=SimpleNamespace(id=TableId("s", "t"), sensitive=())
    )
    rows = SimpleNamespace(texts=lambda *_: {"1;": {"id": "1"}} if in_bronze else {})
    side: Any = SimpleNamespace(rows=rows)
    was = TableResult("shop/t", DIFFERENT, **AT, source_rows=5 + in_bronze, silver_rows=6 - in_bronze, counted=5 + in_bronze)
    found = comparison_result.rows_of_keys(compared, Any, side, was, comparison_result.HashedSides(source, ours))
    assert (found.verdict, found.reason, found.silver_rows) == (EQUAL, "", 5 + in_bronze)


def test_a_bucket_that_comes_twice_is_an_error() -> None:
    """A server that has not grouped by buckets: the last row of each was taken for the sum of all."""
    rows = [(1, 1, 10), (1, 1, 11), (2, 1, 12)]
    cursor = SimpleNamespace(execute=lambda *_: None, fetchall=lambda: rows)
    with pytest.raises(DatabaseError, match=r"s\.t: bucket 1 came twice"):
        BinlogRowsCut(cursor, BinlogPosition.of("binlog.000001", 4)).digest(TableId("s", "t"), TEXT, WHOLE)
