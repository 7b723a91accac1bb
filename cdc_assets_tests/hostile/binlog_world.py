"""The world of a server with a binlog: its tables, its sessions, and how it dies; of either kind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cdc_assets_tests.hostile.binlog_changes import Sessions, alter, run
from cdc_assets_tests.hostile.binlog_compare import in_silver, in_source
from cdc_assets_tests.hostile.binlog_tables import Column, Table, draw
from cdc_assets_tests.hostile.binlog_troubles import Troubles, troubled_tables
from cdc_assets_tests.hostile.course import World
from cdc_assets_tests.hostile.names import SCHEMA, quoted, ticked

if TYPE_CHECKING:
    from cdc_assets_tests.hostile.binlog_facts import BinlogFacts
    from cdc_assets_tests.hostile.world import HostileChain
    from cdc_assets_tests.support.live.live_binlog import LiveBinlog

TABLES, LARGE = 2, 5_000
_DIGITS = "(SELECT 0 AS n" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
_NUMBERS = f"SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 1 AS n FROM {_DIGITS} a, {_DIGITS} b, {_DIGITS} c, {_DIGITS} d"


class BinlogWorld(World):
    """Its tables in MariaDB or MySQL."""

    altered = 0.05
    facts: ClassVar[BinlogFacts]

    def __init__(self, live: LiveBinlog, seed: int) -> None:
        super().__init__(seed)
        self.live = self.named(live, f"{self.facts.kind[:2]}hostile{seed}")
        self.schema = f"{SCHEMA}{seed}"
        self.tables = [draw(self.random, self.facts, self.schema, number) for number in range(TABLES)]
        columns, declared = (
            [Column("id", "bigint", "{n}", required=True), Column("v", "varchar(40)")],
            quoted(self.schema, "huge"),
        )
        self.large = Table(self.facts, self.schema, "huge", TABLES, columns, ("id",), declared={"name": declared})
        self.large.ddl = [f"CREATE TABLE {self.large.sql} (id bigint PRIMARY KEY, v varchar(40))"]
        self.troubled = troubled_tables(self.facts, f"troubled{seed}", TABLES + 1)
        self.all = [*self.tables, self.large, *self.troubled]

    def named(self, live: LiveBinlog, name: str) -> LiveBinlog:
        """The server, for a connector of this name that can be asked to read rows again."""
        return live.renamed(name)

    def create(self) -> None:
        """Tables, and rows for the first snapshot."""
        server = self.live.server
        server.execute(*(f"CREATE DATABASE {ticked(schema)}" for schema in (self.schema, f"troubled{self.seed}")))
        server.execute(*(ddl for table in self.all for ddl in table.ddl))
        for table in (*self.tables, *self.troubled):
            server.execute(*(table.insert(self.random, 4) for _ in range(self.random.choice((1, 1, 6)))))

    def sessions(self) -> Sessions:
        connect = partial(self.live.server.connect, autocommit=False, database=self.schema)
        return Sessions(self.random, connect, self.facts)

    def alter(self, sessions: Sessions, table: Table) -> str:
        return alter(sessions, table)

    def trouble(self, chain: HostileChain) -> None:
        tables = {table.name: table for table in self.troubled}
        Troubles(self.random, self.live.server, chain, tables, self.happened).play()

    def wrong_rows(self, chain: HostileChain) -> str:
        return chain.wrong_rows(self.all, partial(in_source, self.live.server), in_silver)

    def huge(self, sessions: Sessions) -> None:
        """One transaction of ten thousand changes, with an aborted savepoint within."""
        table = self.large.sql
        sessions.finish()
        run(
            sessions.open[0],
            f"INSERT INTO {table} SELECT n, n FROM ({_NUMBERS}) numbers WHERE n <= {LARGE}",
            *("SAVEPOINT s", f"UPDATE {table} SET v = 'undone'", "ROLLBACK TO SAVEPOINT s"),
            f"UPDATE {table} SET v = CONCAT(v, ' changed') WHERE id % 2 = 0",
            *(f"DELETE FROM {table} WHERE id % 3 = 0", f"UPDATE {table} SET id = -id WHERE id % 7 = 0", "COMMIT"),
        )

    def configure(self) -> None:
        """What a server that starts does not have by itself: nothing."""

    def restart(self, sessions: Sessions) -> None:
        """The server dies with transactions open.

        The connector's client would look for it for two minutes (docs/reference/mariadb.md).
        """
        self.live.server.kill()
        self.live.server.start()
        self.configure()
        sessions.reopen()
        name = f"{self.live.name}-capture"
        self.live.connect.restart(name)
        self.live.connect.wait_running(name)
