"""A hostile workload on MariaDB: silver holds what MariaDB holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.hostile.course import World, play_world
from cdc_assets_tests.hostile.mariadb_changes import Sessions, alter, run
from cdc_assets_tests.hostile.mariadb_compare import in_silver, in_source
from cdc_assets_tests.hostile.mariadb_tables import Column, Table, draw
from cdc_assets_tests.hostile.names import SCHEMA, quoted, ticked
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.hostile.world import HostileChain
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]
TABLES, LARGE = 2, 5_000


class MariaDbWorld(World):
    """Its tables in MariaDB."""

    altered = 0.05

    def __init__(self, mariadb: LiveMariaDb, seed: int) -> None:
        super().__init__(seed)
        self.live = mariadb.renamed(f"mhostile{seed}")
        self.schema = f"{SCHEMA}{seed}"
        self.tables = [draw(self.random, self.schema, number) for number in range(TABLES)]
        id_, v = Column("id", "bigint(20)", "{n}", required=True), Column("v", "varchar(40)")
        huge = Table(self.schema, "huge", TABLES, [id_, v], ("id",), declared={"name": quoted(self.schema, "huge")})
        huge.ddl = [f"CREATE TABLE {huge.sql} (id bigint PRIMARY KEY, v varchar(40))"]
        self.all = [*self.tables, huge]

    def create(self) -> None:
        """Tables, and rows for the first snapshot."""
        server = self.live.server
        server.execute(f"CREATE DATABASE {ticked(self.schema)}", *(ddl for table in self.all for ddl in table.ddl))
        for table in self.tables:
            server.execute(*(table.insert(self.random, 4) for _ in range(self.random.choice((1, 1, 6)))))

    @contextmanager
    def settings(self) -> Iterator[None]:
        """The server takes no zero dates, else tables with dates are refused."""
        server = self.live.server
        ((before,),) = server.query("SELECT @@global.sql_mode")
        server.execute(f"SET GLOBAL sql_mode = '{before},NO_ZERO_DATE,NO_ZERO_IN_DATE'")
        try:
            yield
        finally:
            server.execute(f"SET GLOBAL sql_mode = '{before}'")

    def sessions(self) -> Sessions:
        return Sessions(self.random, lambda: self.live.server.connect(autocommit=False, database=self.schema))

    def alter(self, sessions: Sessions, table: Table) -> str:
        return alter(sessions, table)

    def wrong_rows(self, chain: HostileChain) -> str:
        return chain.wrong_rows(self.all, partial(in_source, self.live.server), in_silver)

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


@pytest.mark.all
def test_silver_is_what_mariadb_has(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "MariaDB", lambda seed: play_world(MariaDbWorld(mariadb, seed), remote, session, tmp_path / str(seed)))
