"""Unusual tables of PostgreSQL, captured: delta-rs reads what they become in silver, and PostgreSQL says what is right."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets import names
from cdc_assets.apply.partitions import publish_by_root
from cdc_assets.defs.checks.schema import schema_result
from cdc_assets.reconcile.heal import heal
from cdc_assets.reconcile.result import TableResult
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.values.unusual_tables import BEHIND, CHANGES, DDL, KINDS, SELECTS, SWAPS, TABLES, UNLOGGED, WIDE

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
    run(own, DDL, WIDE)
    with small_chain(own, remote, session, tmp_path_factory.mktemp("unusual"), TABLES) as chain:
        run(own, *BEHIND.split(";"), *SWAPS, *CHANGES.split(";"))
        chain.advance(fold=False)
        behind = chain.compare([f"unusual.{table}" for table in ("lagging", "anew", "swapped", "rekeyed")])
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
        wanted, columns = sorted(cursor.fetchall(), key=repr), [c.name for c in cursor.description]
    rows = DeltaTable(chain.silver(f"unusual.{table}")).to_pyarrow_table().to_pylist()
    assert sorted((tuple(row[c] for c in columns) for row in rows), key=repr) == wanted


def test_a_row_type_whose_fields_are_null_is_no_null(played: Played) -> None:
    assert_same(played.chain, "shown")
    assert (played.verdict("shown"), played.verdict("by_shape")) == (EQUAL, EQUAL)


def test_changes_of_every_partition_arrive(played: Played) -> None:
    """Of partitions and theirs, one added later, and rows that move from one to another."""
    assert_same(played.chain, "parted")
    assert played.verdict("parted") == EQUAL


def test_a_publication_of_ours_is_altered_once(played: Played) -> None:
    """What `cdc apply` and the connector's asset do before they bring the connector."""
    live = played.chain.live
    assert publish_by_root(played.chain.source) == ""
    run(live, "ALTER PUBLICATION cdc_unusual SET (publish_via_partition_root = false)")
    assert "For what was lost: cdc onboard unusual unusual.parted --again" in publish_by_root(played.chain.source)
    with live.connection() as connection:
        found = connection.execute("SELECT pubviaroot FROM pg_publication WHERE pubname = 'cdc_unusual'").fetchone()
    assert (found, publish_by_root(played.chain.source)) == ((True,), "")


def test_rows_of_children_are_no_rows_of_the_table(played: Played) -> None:
    assert_same(played.chain, "parent")
    assert played.verdict("parent") == EQUAL


def test_silver_behind_a_schema_change_is_not_different(played: Played) -> None:
    """But for the value that no event tells of."""
    for found in (played.behind, played.folded):
        for name in ("unusual__lagging", "unusual__swapped", "unusual__rekeyed"):
            assert (found[name].verdict, found[name].reason, found[name].differences) == ("equal", "", ())
        assert [(d.key, d.columns) for d in found["unusual__anew"].differences] == [("1;", ("v",))]
    assert_same(played.chain, "lagging")
    assert_same(played.chain, "swapped")
    assert_same(played.chain, "rekeyed")


def test_an_isn_is_a_text(played: Played) -> None:
    assert_same(played.chain, "book")
    assert played.verdict("book") == EQUAL


def test_a_key_is_the_declared_one_and_what_an_index_is_of(played: Played) -> None:
    """An identity that is declared as the key; a primary key that includes a column which is none of the key."""
    for table in ("chosen", "included"):
        assert_same(played.chain, table)
        assert played.verdict(table) == EQUAL


def test_every_column_is_compared_and_healed(played: Played) -> None:
    """Row 1 of silver gets the values of row 2, and a point of row 3 another coordinate."""
    chain, table = played.chain, played.chain.source.table("unusual.wide")
    shown = [(d.key, d.columns, [(d.source or {}).get(c) for c in d.columns]) for d in played.folded["unusual__wide"].differences]
    assert (played.verdict("wide"), shown) == (EQUAL, [])
    whole = DeltaTable(chain.silver("unusual.wide")).to_pyarrow_table()
    rows = {row["id"]: row for row in whole.to_pylist()}
    assert len(rows) == 10
    rows[1] |= {name: rows[2][name] for name in KINDS}
    rows[3]["p"] = {**rows[3]["p"], "x": 0.2}
    write_deltalake(chain.silver("unusual.wide"), pa.Table.from_pylist([*rows.values()], schema=whole.schema), mode="overwrite")
    (result,) = chain.compare(["unusual.wide"]).values()
    assert {d.key: (d.where, d.columns) for d in result.differences} == {"1;": ("silver", KINDS), "3;": ("silver", ("p",))}
    assert heal(chain.platform, chain.source, table, result) == (2, 0)
    (result,) = chain.compare(["unusual.wide"]).values()
    assert (result.verdict, result.differences) == ("equal", ())


def test_what_partitions_lose_without_an_event_is_told_and_read_again(played: Played) -> None:
    chain, table = played.chain, played.chain.source.table("unusual.parted")
    run(chain.live, UNLOGGED, "UPDATE parted SET v = 'told' WHERE id = 100")
    chain.advance()
    (result,) = chain.compare(["unusual.parted"]).values()
    assert {d.kind for d in result.differences} == {"phantom", "missing"}
    told = schema_result(str(chain.root), chain.source, table)
    assert not told.passed
    assert "2 partitions of the table: dropped, detached, truncated or rewritten" in str(told.description)
    read_whole(chain)
    chain.advance()
    assert_same(chain, "parted")
    (result,) = chain.compare(["unusual.parted"]).values()
    assert (result.verdict, result.differences) == ("equal", ())
    assert schema_result(str(chain.root), chain.source, table).passed


def read_whole(chain: SmallChain) -> None:
    """A blocking snapshot of the table, and until its rows are in the topic."""
    database, signals = PostgresCapture(chain.source.database), names.signal_table(chain.source)  # type: ignore[arg-type]
    database.ensure_signal_table(signals)
    database.publish(names.publication_name(chain.source), [signals])
    asked = {"data-collections": [r"unusual\.parted"], "type": "blocking"}
    database.send_signal(signals, "parted-again", "execute-snapshot", json.dumps(asked))
    deadline = time.monotonic() + 180
    while not any('"op":"r"' in (r.value or "") and "filled" in (r.value or "") for r in of_parted(chain)):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def of_parted(chain: SmallChain) -> list[Any]:
    return [record for records in chain.live.delivered()["unusual.unusual.parted"].values() for record in records]
