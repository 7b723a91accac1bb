"""Unusual tables of PostgreSQL, captured: delta-rs reads what they become in silver, and PostgreSQL says what is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.reconcile.result import TableResult
from cdc_assets_tests.live_source import LiveSource
from cdc_assets_tests.spark.small_chain import SmallChain, small_chain
from cdc_assets_tests.spark.unusual_tables import BEHIND, CHANGES, DDL, SELECTS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Played:
    """The chain after the changes; what a comparison found while silver was behind, and once it had folded."""

    chain: SmallChain
    behind: dict[str, TableResult]
    folded: dict[str, TableResult]

    def verdict(self, table: str) -> tuple[Any, ...]:
        result = self.folded[f"unusual__{table}"]
        return result.verdict, result.reason, result.differences[:3], result.not_compared


EQUAL = ("equal", "", (), {})


@pytest.fixture(scope="module")
def played(live: LiveSource, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    own = replace(live, name="unusual")
    run(own, DDL)
    with small_chain(own, remote, session, tmp_path_factory.mktemp("unusual"), TABLES) as chain:
        run(own, *BEHIND.split(";"), *CHANGES.split(";"))
        chain.advance(fold=False)
        behind = chain.compare(["unusual.lagging", "unusual.anew"])
        chain.fold()
        yield Played(chain, behind, chain.compare())


def run(live: LiveSource, *scripts: str) -> None:
    with live.connection() as connection:
        connection.execute("SET search_path TO unusual, public")
        for script in scripts:
            connection.execute(script.encode())


def assert_same(chain: SmallChain, table: str) -> None:
    with chain.live.connection() as connection:
        connection.execute("SET search_path TO unusual, public")
        cursor = connection.execute(SELECTS[table].encode())
        wanted, columns = sorted(cursor.fetchall()), [c.name for c in cursor.description]
    rows = DeltaTable(chain.silver(f"unusual.{table}")).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row[c] for c in columns) for row in rows) == wanted


def test_a_row_type_whose_fields_are_null_is_no_null(played: Played) -> None:
    assert_same(played.chain, "shown")
    assert (played.verdict("shown"), played.verdict("by_shape")) == (EQUAL, EQUAL)


def test_changes_of_every_partition_arrive(played: Played) -> None:
    """Of partitions and theirs, one added later, and rows that move from one to another."""
    assert_same(played.chain, "parted")
    assert played.verdict("parted") == EQUAL


def test_silver_behind_a_schema_change_is_not_different(played: Played) -> None:
    """But for the value that no event tells of."""
    for found in (played.behind, played.folded):
        assert (found["unusual__lagging"].verdict, found["unusual__lagging"].reason) == ("equal", "")
        assert [(d.key, d.columns) for d in found["unusual__anew"].differences] == [("1;", ("v",))]
    assert_same(played.chain, "lagging")


def test_an_isn_is_a_text(played: Played) -> None:
    assert_same(played.chain, "book")
    assert played.verdict("book") == EQUAL
