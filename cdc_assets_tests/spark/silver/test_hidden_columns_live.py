"""Tables with columns that the log or `SELECT *` leaves out (generated, INVISIBLE) are read again by chunks, and rows of them
healed, while others write. The database is the oracle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.healing import heal
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.read_again import snapshot
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.servers.binlog_server import PASSWORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.all, pytest.mark.stack]

ROWS = 3000
"""More than two chunks of Debezium's."""
Run = Callable[[str], Any]
Ask = Callable[[], list[tuple[Any, ...]]]


def test_generated_columns_of_postgresql(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    """pgoutput does not send them: once it has described the table, Debezium's model lacks what `SELECT *` reads."""
    own = replace(live, name="generated")
    with own.connection() as connection, own.connection() as other:
        connection.execute(
            "CREATE TABLE generated (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, v int,"
            " w int GENERATED ALWAYS AS (id + 1) STORED)"
        )
        connection.execute(f"INSERT INTO generated (id, v) SELECT i, i FROM generate_series(1, {ROWS}) i".encode())
        declared = [{"name": "public.generated", "except_column_list": ["g", "w"]}]
        with small_chain(own, remote, session, tmp_path / "lake", declared) as chain:

            def ask() -> list[tuple[Any, ...]]:
                return connection.execute("SELECT id, v FROM generated ORDER BY id").fetchall()

            read_again(chain, "public.generated", lambda statement: other.execute(statement.encode()), ask)


def test_invisible_columns_of_mariadb(mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = mariadb.renamed("mariahidden")
    own.server.execute(
        "CREATE DATABASE hidden",
        "CREATE TABLE hidden.t (id int PRIMARY KEY, b int INVISIBLE DEFAULT 7, v int, g int AS (id + 1) STORED)",
        "USE hidden",
        f"INSERT INTO hidden.t (id, v) SELECT seq, seq FROM seq_1_to_{ROWS}",
        "CREATE DATABASE IF NOT EXISTS cdc_assets",
        f"CREATE USER IF NOT EXISTS cdc IDENTIFIED BY '{PASSWORD}'",
        "GRANT CREATE, SELECT, INSERT, DELETE ON cdc_assets.* TO cdc",
    )
    declared = [{"name": "hidden.t", "except_column_list": ["g"]}]
    with small_chain(own, remote, session, tmp_path / "lake", declared) as chain:

        def ask() -> list[tuple[Any, ...]]:
            return own.server.query("SELECT id, b, v FROM hidden.t ORDER BY id")

        read_again(chain, "hidden.t", lambda statement: own.server.execute(statement.replace("generated", "hidden.t")), ask)


def read_again(chain: SmallChain, table: str, run: Run, ask: Ask) -> None:
    run("UPDATE generated SET v = 0 WHERE id = 1")
    chain.advance()
    assert in_silver(chain, table) == ask()
    silver = DeltaTable(chain.silver(table))
    silver.update(updates={"v": "-1"})
    told = while_others_write(run, lambda: snapshot(chain, table))
    assert f"{table} read again (incremental): {ROWS} rows" in told
    chain.advance()
    assert in_silver(chain, table) == ask()
    heal_a_row(chain, table, run)
    chain.advance()
    assert in_silver(chain, table) == ask()


def while_others_write(run: Run, work: Callable[[], str]) -> str:
    """The first change that a chunk stands beside describes the table in the log."""
    done = threading.Event()

    def write() -> None:
        number = 1
        while not done.wait(0.05):
            number = number % ROWS + 1
            run(f"UPDATE generated SET v = v + 1 WHERE id = {number}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return work()
    finally:
        done.set()
        writer.join()


def heal_a_row(chain: SmallChain, table: str, run: Run) -> None:
    """One change is lost in bronze."""
    run("UPDATE generated SET v = 424242 WHERE id = 7")
    chain.advance(fold=False)
    bronze = DeltaTable(str(Path(chain.root) / "bronze" / chain.source.name))
    lost = [r for r in bronze.to_pyarrow_table().to_pylist() if b"424242" in (r["value"] or b"")]
    assert lost
    for row in lost:
        bronze.delete(f"offset = {row['offset']}")
    chain.fold()
    (result,) = chain.compare([table]).values()
    assert [(d.kind, d.key) for d in result.differences] == [("differs", "7;")]
    assert heal(Chain(chain.platform, chain.source), chain.source.tables[0], result) == (0, 1)
    awaited: Sequence[Any] = ()
    for _ in range(60):
        chain.advance()
        if awaited := [row for row in in_silver(chain, table) if row[-1] == 424242]:
            return
    assert awaited


def in_silver(chain: SmallChain, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(v for c, v in row.items() if not c.startswith("_")) for row in values(chain.silver(table)))
