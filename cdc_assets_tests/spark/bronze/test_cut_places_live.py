"""A cut is exactly at its marker: what is committed while it travels is not in it, nor what was written before and commits later.

PostgreSQL and MariaDB say themselves what was committed then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.consistent_cut import make_cut
from cdc_assets.recovery.cut_manifest import CutManifest
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

Rows = dict[str, dict[int, int]]
NAME = "cutplaces"


@pytest.mark.stack
def test_a_cut_of_postgresql_is_at_its_marker(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="cutmarkers")
    with own.connection(autocommit=False) as writer, own.connection(autocommit=False) as slow, own.connection() as reader:
        make_tables(writer, "public.here", "public.there")

        def ask() -> Rows:
            return {t: dict(reader.execute(f"TABLE public.{t}".encode()).fetchall()) for t in ("here", "there")}

        tables = ["public.here", {"name": "public.there", "history": "scd2"}]
        with small_chain(own, remote, session, tmp_path / "lake", tables) as chain:
            it_is_exact(chain, writer, slow, ask)


@pytest.mark.stack
@pytest.mark.all
def test_a_cut_of_mariadb_is_at_its_place(mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = mariadb.renamed(NAME)
    own.server.execute(f"CREATE DATABASE {NAME}")
    with own.connection(autocommit=False) as writer, own.connection(autocommit=False) as slow, own.connection() as reader:
        make_tables(writer, "here", "there")

        def ask() -> Rows:
            return {t: dict(reader.execute(f"SELECT id, v FROM {t}")) for t in ("here", "there")}

        tables = [f"{NAME}.here", {"name": f"{NAME}.there", "history": "scd2"}]
        with small_chain(own, remote, session, tmp_path / "lake", tables) as chain:
            it_is_exact(chain, writer, slow, ask)


def make_tables(writer: Any, *tables: str) -> None:
    for table in tables:
        writer.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL)")
        writer.execute(f"INSERT INTO {table} VALUES (1, 100), (2, 100), (3, 100)")
    writer.commit()


def move(writer: Any, account: int, amount: int) -> None:
    for table, change in (("here", -amount), ("there", amount)):
        writer.execute(f"UPDATE {table} SET v = v + {change} WHERE id = {account}")


def it_is_exact(chain: SmallChain, writer: Any, slow: Any, ask: Callable[[], Rows]) -> None:
    said: list[str] = []
    cuts: list[tuple[CutManifest, Rows]] = []
    for number in range(3):
        # Written before the marker, half of it, and committed behind it.
        slow.execute("UPDATE here SET v = v - 7 WHERE id = 3")
        move(writer, 1, 5)
        writer.commit()
        if number == 1:
            chain.advance()
        held: list[Rows] = []

        def meanwhile(held: list[Rows] = held) -> None:
            """The marker is in the core's topics, and nothing of this is in the lake's."""
            held.append(ask())
            move(writer, 2, 3)
            writer.commit()
            slow.execute("UPDATE there SET v = v + 7 WHERE id = 3")
            slow.commit()
            move(writer, 2, 4)
            writer.commit()
            chain.live.delivered()

        assert chain.copier is not None
        chain.copier.during = meanwhile
        made = make_cut(Chain(chain.platform, chain.source), said.append).manifest
        cuts.append((made, *held))
        assert in_lake(chain, made) == held[0] != ask()
    chain.advance()
    # Whatever came later: each version still holds what it held.
    for made, rows in cuts:
        assert in_lake(chain, made) == rows
        assert sum(sum(each.values()) for each in rows.values()) == 600
    assert len({made.position for made, _ in cuts}) == len(cuts)
    made = make_cut(Chain(chain.platform, chain.source), said.append).manifest
    assert in_lake(chain, made) == ask()
    assert sum("has come through the log" in line for line in said) == 4, said


def in_lake(chain: SmallChain, cut: CutManifest) -> Rows:
    """By delta-rs; a table with a history has the same current rows there."""
    found: Rows = {}
    for entry in cut.entries:
        rows = DeltaTable(f"{chain.root}/{entry.path}", version=entry.version).to_pyarrow_table().to_pylist()
        current = {row["id"]: row["v"] for row in rows if row.get("_is_current", True)}
        name = entry.table.rpartition("__")[2]
        assert found.setdefault(name, current) == current
    return found
