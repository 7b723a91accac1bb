"""Unusual tables of PostgreSQL, captured: delta-rs reads what they become in silver, and PostgreSQL says what is right."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.capture.connectors.apply_source import mend_partitions
from cdc_assets.capture.onboarding.snapshot_again import Reading, read_again, work_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.proof.healing import heal
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.values.unusual_tables import (
    ALONE,
    BEHIND,
    CHANGES,
    COPIES,
    DDL,
    KINDS,
    SELECTS,
    SWAPS,
    TABLES,
    UNLOGGED,
    WIDE,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


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
        changed = [table.name for table in chain.source.tables if table.id.table not in ALONE]
        chain.fold(changed)
        yield Played(chain, behind, chain.compare(changed))


def run(live: LiveSource, *scripts: str) -> None:
    with live.connection() as connection:
        connection.execute("SET search_path TO unusual, public")
        for script in scripts:
            connection.execute(script.encode())


def assert_same(chain: SmallChain, table: str) -> None:
    with chain.live.connection() as connection:
        connection.execute("SET search_path TO unusual, public")
        cursor = connection.execute(SELECTS.get(table, f"SELECT id, r, v FROM {table}").encode())
        wanted, columns = sorted(cursor.fetchall(), key=repr), [c.name for c in cursor.description]
    rows = DeltaTable(chain.silver(f"unusual.{table}")).to_pyarrow_table().to_pylist()
    assert sorted((tuple(row[c] for c in columns) for row in rows), key=repr) == wanted


def nudge(value: Any) -> Any:
    """The least that another value of this kind differs by."""
    if isinstance(value, dict):
        name = next(name for name, part in value.items() if part not in (None, ""))
        return {**value, name: nudge(value[name])}
    if isinstance(value, list | tuple):
        return (
            type(value)([*value[:-1], nudge(value[-1])]) if value[-1] is not None else type(value)([nudge(value[0]), *value[1:]])
        )
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    return re.sub(r"\d(?=\D*$)", lambda digit: str(int(digit[0]) ^ 1), value)


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
    assert mend_partitions(played.chain.source) == ""
    run(live, "ALTER PUBLICATION cdc_unusual SET (publish_via_partition_root = false)")
    late = " ".join(sorted(f"unusual.{table}" for table in ("parted", *ALONE)))
    assert f"For what was lost: cdc onboard unusual {late} --again" in mend_partitions(played.chain.source)
    with live.connection() as connection:
        found = connection.execute("SELECT pubviaroot FROM pg_publication WHERE pubname = 'cdc_unusual'").fetchone()
    assert (found, mend_partitions(played.chain.source)) == ((True,), "")


def test_rows_of_children_are_no_rows_of_the_table(played: Played) -> None:
    assert_same(played.chain, "parent")
    assert played.verdict("parent") == EQUAL


@pytest.mark.all
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


@pytest.mark.all
def test_every_column_is_compared_and_healed(played: Played) -> None:
    """Row 1 of silver gets the values of row 2, and each copy of it the smallest other value of one kind.

    The JSON of row 3 goes on behind its end.
    """
    chain, table = played.chain, played.chain.source.table("unusual.wide")
    shown = [(d.key, d.columns, [(d.source or {}).get(c) for c in d.columns]) for d in played.folded["unusual__wide"].differences]
    assert (played.verdict("wide"), shown) == (EQUAL, [])
    whole = DeltaTable(chain.silver("unusual.wide")).to_pyarrow_table()
    rows = {row["id"]: row for row in whole.to_pylist()}
    assert len(rows) == 2 * (5 + len(KINDS))
    for kind, copy in COPIES.items():
        rows[copy][kind] = nudge(rows[copy][kind])
    rows[1] |= {name: rows[2][name] for name in KINDS}
    rows[3]["h"] += "}"
    write_deltalake(chain.silver("unusual.wide"), pa.Table.from_pylist([*rows.values()], schema=whole.schema), mode="overwrite")
    (result,) = chain.compare(["unusual.wide"]).values()
    planted = {
        "1;": ("silver", KINDS),
        "3;": ("silver", ("h",)),
        **{f"{copy};": ("silver", (kind,)) for kind, copy in COPIES.items()},
    }
    assert {d.key: (d.where, d.columns) for d in result.differences} == planted
    assert heal(Chain(chain.platform, chain.source), table, result) == (len(planted), 0)
    (result,) = chain.compare(["unusual.wide"]).values()
    assert (result.verdict, result.differences) == ("equal", ())


@pytest.mark.all
def test_what_partitions_lose_without_an_event_is_told_and_read_again(
    played: Played, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each way alone, and several at once. A partition that comes back with other rows is as it was for the catalogue."""
    chain = played.chain
    run(chain.live, UNLOGGED, *ALONE.values())
    run(chain.live, *(f"UPDATE {table} SET v = 'told' WHERE id % 100 = 3" for table in ("parted", *ALONE)))
    chain.advance(tables=LOSERS)
    found = {name.removeprefix("unusual__"): result for name, result in chain.compare(LOSERS).items()}
    assert {d.kind for d in found["parted"].differences} == {"phantom", "missing"}
    assert {name: [(d.kind, d.key) for d in found[name].differences] for name in ALONE} == {
        "attached": [("missing", "90;1:d;")],
        "detached": [("phantom", "1;1:b;"), ("phantom", "4;1:b;")],
        "dropped": [("phantom", "2;1:c;"), ("phantom", "5;1:c;")],
        "emptied": [("phantom", "1;1:b;"), ("phantom", "4;1:b;")],
        "away": [("differs", "1;1:b;"), ("phantom", "4;1:b;")],
    }
    lost = "dropped, detached, truncated or rewritten at the source"
    assert told(chain, "parted") == (False, f"2 partitions of the table: {lost}")
    for table in ("detached", "dropped", "emptied"):
        assert told(chain, table) == (False, f"1 partition of the table: {lost}")
    for table in ("attached", "away"):
        assert told(chain, table)[0]
        assert heal(Chain(chain.platform, chain.source), chain.source.table(f"unusual.{table}"), found[table]) == (0, 1)
    read_whole(chain, ["parted", "detached", "dropped", "emptied"], monkeypatch, tmp_path)
    chain.advance(tables=LOSERS)
    left = {name.removeprefix("unusual__"): result.differences for name, result in chain.compare(LOSERS).items()}
    # A row that was deleted while its partition was away: nothing but a new epoch takes it away.
    assert [(d.kind, d.key) for d in left.pop("away")] == [("phantom", "4;1:b;")]
    assert left == dict.fromkeys(("parted", "attached", "detached", "dropped", "emptied"), ())
    for table in left:
        assert_same(chain, table)
        assert told(chain, table)[0], table


LOSERS = [f"unusual.{table}" for table in ("parted", *ALONE)]


def told(chain: SmallChain, table: str) -> tuple[bool, str]:
    """What the check `schema` says, up to what no event tells."""
    result = schema_result(str(chain.root), chain.source, chain.source.table(f"unusual.{table}"))
    return result.passed, str(result.description).partition(", which")[0]


def read_whole(chain: SmallChain, tables: Sequence[str], patch: pytest.MonkeyPatch, folder: Path) -> None:
    """What `cdc snapshot --blocking` does with each."""
    declared = json.dumps(chain.source.model_dump(mode="json", exclude_unset=True, by_alias=True))
    (folder / "unusual.yaml").write_text(declared)
    patch.setenv("CDC_SOURCES", str(folder))
    for table in tables:
        reading = Reading((f"unusual.{table}",), "blocking")
        read_again(work_of(chain.platform, "unusual", reading, print), reading)
