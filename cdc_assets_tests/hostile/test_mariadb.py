"""A hostile workload on MariaDB: silver holds what MariaDB holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from cdc_assets.preflight.capturable import refuse_inexact
from cdc_assets.registry_files.collisions import find_collisions
from cdc_assets_tests.hostile.mariadb_changes import Sessions, alter, run
from cdc_assets_tests.hostile.mariadb_compare import in_silver, in_source
from cdc_assets_tests.hostile.mariadb_tables import Column, Table, draw
from cdc_assets_tests.hostile.names import SCHEMA, quoted, ticked
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.hostile.world import hostile_chain, tell_of
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.servers.binlog_server import BinlogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]
TABLES, STEPS, LARGE = 2, 80, 5_000


class World:
    """The tables of one seed, and what happens to them."""

    def __init__(self, mariadb: LiveMariaDb, seed: int) -> None:
        self.random, self.seed = Random(seed), seed
        self.live = mariadb.renamed(f"mhostile{seed}")
        self.schema = f"{SCHEMA}{seed}"
        self.tables = [draw(self.random, self.schema, number) for number in range(TABLES)]
        id_, v = Column("id", "bigint(20)", "{n}", required=True), Column("v", "varchar(40)")
        huge = Table(self.schema, "huge", TABLES, [id_, v], ("id",), declared={"name": quoted(self.schema, "huge")})
        huge.ddl = [f"CREATE TABLE {huge.sql} (id bigint PRIMARY KEY, v varchar(40))"]
        self.all = [*self.tables, huge]
        self.happened: list[str] = []

    def create(self) -> None:
        """Tables, and rows for the first snapshot."""
        server = self.live.server
        server.execute(f"CREATE DATABASE {ticked(self.schema)}", *(ddl for table in self.all for ddl in table.ddl))
        for table in self.tables:
            server.execute(*(table.insert(self.random, 4) for _ in range(self.random.choice((1, 1, 6)))))

    def play(self, sessions: Sessions, steps: int) -> None:
        """Crossed statements; of even seeds with a change of some table now and then."""
        for _ in range(steps):
            sessions.step(self.tables)
            if self.seed % 2 == 0 and self.random.random() < 0.05:
                table = self.random.choice(self.tables)
                self.happened.append(f"{alter(sessions, table)} {table.name!r}")

    def write(self, sessions: Sessions) -> None:
        """What happens while a comparison runs; it refuses a table that is altered or truncated under it."""
        for _ in range(15):
            sessions.step(self.tables, truncate=False)

    def huge(self, sessions: Sessions) -> None:
        """One transaction of ten thousand changes, with an aborted savepoint within."""
        table, sequence = self.all[-1].sql, f"{ticked(self.schema)}.seq_1_to_{LARGE}"
        sessions.finish()
        run(
            sessions.open[0],
            *(f"INSERT INTO {table} SELECT seq, seq FROM {sequence}", "SAVEPOINT s", f"UPDATE {table} SET v = 'undone'"),
            *("ROLLBACK TO SAVEPOINT s", f"UPDATE {table} SET v = CONCAT(v, ' changed') WHERE id % 2 = 0"),
            *(f"DELETE FROM {table} WHERE id % 3 = 0", f"UPDATE {table} SET id = -id WHERE id % 7 = 0", "COMMIT"),
        )

    def restart(self, sessions: Sessions) -> None:
        """The server dies with transactions open.

        The connector's client would look for it for two minutes (docs/reference/mariadb.md).
        """
        self.live.server.kill()
        self.live.server.start()
        sessions.reopen()
        name = f"{self.live.name}-capture"
        self.live.connect.restart(name)
        self.live.connect.wait_running(name)


@contextmanager
def strict(server: BinlogServer) -> Iterator[None]:
    """It takes no zero dates, else tables with dates are refused."""
    ((before,),) = server.query("SELECT @@global.sql_mode")
    server.execute(f"SET GLOBAL sql_mode = '{before},NO_ZERO_DATE,NO_ZERO_IN_DATE'")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL sql_mode = '{before}'")


def play(mariadb: LiveMariaDb, remote: str, session: SparkSession, root: Path, seed: int) -> None:
    """One world, from its first snapshot to the comparison of every table."""
    world = World(mariadb, seed)
    world.create()
    server, declared = world.live.server, [table.declared for table in world.all]
    source = world.live.source(declared)
    assert list(find_collisions([source])) == []
    with strict(server), hostile_chain(world.live, remote, session, root, declared) as chain, tell_of(world.happened):
        database = chain.platform.database(chain.source)
        refuse_inexact(database, chain.source, database.tables([t.id for t in chain.source.tables]), snapshot=True)
        sessions = Sessions(world.random, lambda: server.connect(autocommit=False, database=world.schema))
        with closing(sessions):
            world.play(sessions, STEPS)
            if seed % 3 == 0:
                world.restart(sessions)
            world.huge(sessions)
            world.play(sessions, STEPS)
            chain.advance(fold=False)
            # Silver lags behind, others write, and transactions are open across the cut.
            told: dict[str, object] = {"behind": chain.not_equal(during=partial(world.write, sessions))}
            if seed % 2 == 0:
                # Of the other seeds all changes are folded at once.
                chain.advance()
            world.play(sessions, STEPS // 2)
            sessions.finish()
            chain.advance()
            told["rows"] = chain.wrong_rows(world.all, partial(in_source, server), in_silver)
            told |= chain.troubles()
        assert not any(told.values()), "\n".join(f"{what}: {found}" for what, found in told.items() if found)


def test_silver_is_what_mariadb_has(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "MariaDB", lambda seed: play(mariadb, remote, session, tmp_path / str(seed), seed))
