"""`cdc snapshot` mends what no event tells: values of a new column, and rows damaged in silver. The database is the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets.proof.comparison_result import TableResult
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.read_again import invoke, snapshot
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

ROWS = 12


@pytest.mark.stack
def test_a_postgresql_table_is_read_again(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="mended")
    with own.connection() as connection:
        connection.execute("CREATE TABLE mended (id int PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE mended_too (id int PRIMARY KEY, v text)")
        connection.execute(f"INSERT INTO mended SELECT i, 'v' || i FROM generate_series(1, {ROWS}) i")

        def run(statement: str) -> None:
            connection.execute(statement.encode())

        def ask() -> dict[int, tuple[str, str]]:
            return {i: (v, s) for i, v, s in connection.execute("SELECT id, v, stamp::text FROM mended").fetchall()}

        with small_chain(own, remote, session, tmp_path / "lake", ["public.mended", "public.mended_too"]) as chain:
            # A default of each row's own: the table is rewritten, and no row has an event.
            run("ALTER TABLE mended ADD COLUMN stamp uuid DEFAULT gen_random_uuid()")
            lacking_values_come(chain, "public.mended", run, ask)


@pytest.mark.stack
@pytest.mark.all
def test_a_mariadb_table_is_read_again(mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = mariadb.renamed("mariamended")
    execute, query = own.server.execute, own.server.query
    execute("CREATE DATABASE mended", "CREATE TABLE mended.mended (id int PRIMARY KEY, v varchar(20))")
    execute("CREATE TABLE mended.mended_too (id int PRIMARY KEY, v varchar(20))")
    execute(*[f"INSERT INTO mended.mended VALUES ({i}, 'v{i}')" for i in range(1, ROWS + 1)])

    def ask() -> dict[int, tuple[str, str]]:
        return {i: (v, s) for i, v, s in query("SELECT id, v, stamp FROM mended.mended")}

    with small_chain(own, remote, session, tmp_path / "lake", ["mended.mended", "mended.mended_too"]) as chain:
        execute("ALTER TABLE mended.mended ADD COLUMN stamp varchar(36) DEFAULT (uuid())")
        # The role may make no table: what is said is run, to the letter.
        refused = invoke(chain, "mended.mended")
        statements = str(refused.exception).partition("let somebody who may run, while the connector runs: ")[2]
        assert (refused.exit_code, "`cdc_assets`.`signal_mariamended`" in statements) == (1, True), refused.exception
        execute(*statements.split("; "))
        lacking_values_come(chain, "mended.mended", lambda statement: execute(statement.replace("mended", "mended.mended")), ask)


def lacking_values_come(
    chain: SmallChain, table: str, run: Callable[[str], None], ask: Callable[[], dict[int, tuple[str, str]]]
) -> None:
    run("INSERT INTO mended (id, v) VALUES (99, 'with its stamp')")
    chain.advance()
    assert {i for i, (_, stamp) in in_silver(chain, table).items() if stamp is None} == {*range(1, ROWS + 1)}
    told = snapshot(chain, table, "--where", "id <= 4 OR v = 'v5'")
    assert f"{table} read again (incremental): 5 rows" in told
    chain.advance()
    assert {i for i, (_, stamp) in in_silver(chain, table).items() if stamp is None} == {*range(6, ROWS + 1)}
    damage(chain, table)
    broken = compared(chain, table)
    assert {d.key: d.kind for d in broken.differences} == {
        **{f"{i};": "differs" for i in (1, *range(6, ROWS + 1))},
        "2;": "missing",
    }
    # The other table has no row: read as well, and empty.
    told = snapshot(chain, table, f"{table}_too")
    assert (f"{table} read again (incremental): 13 rows" in told, f"{table}_too read again (incremental): 0 rows" in told) == (
        True,
        True,
    ), told
    chain.advance()
    assert in_silver(chain, table) == ask()
    equal = compared(chain, table)
    assert equal.equal, equal.sentence()


def compared(chain: SmallChain, name: str) -> TableResult:
    (found,) = chain.compare([name]).values()
    return found


def damage(chain: SmallChain, name: str) -> None:
    """Behind the back of everything that writes silver."""
    table = DeltaTable(chain.silver(name))
    table.update(updates={"v": "'damaged'"}, predicate="id = 1")
    table.delete("id = 2")


def in_silver(chain: SmallChain, name: str) -> dict[int, tuple[str, str]]:
    return {row["id"]: (row["v"], row["stamp"]) for row in values(chain.silver(name))}
