"""No name that a statement or a frame of ours gives can be that of a column that stands beside it."""

from __future__ import annotations

import re

import pytest

from cdc_assets_tests.support.given_names import given_names, whole_names
from spark.errors import TableStopError
from spark.silver.column_ledger import OWN_PREFIX, is_own_name
from spark.silver.silver_table import check_names
from spark.specs import OWN_COLUMNS, Column, SilverSpec

_SLOT = re.compile(r"c\d*")
_ELSEWHERE = {
    "spark/silver/history_job.py": {"_obsolete_versions"},
    "spark/silver/history_versions.py": {"_newest"},
    "spark/proof/bucket_sums.py": {"range_end"},
    "spark/proof/heal_from_bronze.py": {"_rows_in_silver"},
    "spark/silver/schema_evolution.py": {"_fill"},
    "spark/silver/key_changes.py": {"rows_as_events"},
    "spark/silver/keyless_tables.py": {"_replace"},
    "spark/upkeep/window_refinement.py": {"watermark_of", "_of"},
    "spark/upkeep/window_results.py": {"write_changes"},
}
"""Functions that write a column's own name only to give it another (c0, c1, …), or behind the name of its table (`t.`, `l.`), or
beside nothing but their own names once rows are summed. Each was read by somebody; a new one is not among them."""


def test_a_name_beside_a_tables_own_columns_is_none_of_a_column() -> None:
    taken = [
        given
        for given in given_names()
        if given.beside_columns
        and not given.name.startswith(OWN_PREFIX)
        and given.name not in OWN_COLUMNS
        and not _SLOT.fullmatch(given.name)
        and given.function not in _ELSEWHERE.get(given.file, ())
    ]
    assert taken == []


def test_the_functions_that_are_left_out_are_there() -> None:
    there = {(given.file, given.function) for given in given_names() if given.beside_columns}
    assert {(file, function) for file, functions in _ELSEWHERE.items() for function in functions} <= there


def test_the_script_finds_names_of_each_form() -> None:
    """A method's argument, a key of many, an alias in SQL, a list of aliases, a schema in words."""
    assert {"gone", "unlike", "_cdc_micros", "_cdc_o", "key"} <= {*whole_names()}
    assert len(whole_names()) > 150


@pytest.mark.parametrize("name", ["_cdc_rows", "_CDC_any", "_cdc_", *OWN_COLUMNS])
def test_a_column_of_such_a_name_is_refused(name: str) -> None:
    assert is_own_name(name)
    columns = (Column("id", "integer", False), Column(name, "integer", True))
    with pytest.raises(TableStopError, match="have names that silver uses itself"):
        check_names(SilverSpec("s", "t", "-", "-", columns, ("id",)))


@pytest.mark.parametrize("name", ["_cdc", "cdc_rows", "__cdc_x", "b", "gone"])
def test_a_column_of_another_name_is_not(name: str) -> None:
    check_names(SilverSpec("s", "t", "-", "-", (Column("id", "integer", False), Column(name, "integer", True)), ("id",)))
