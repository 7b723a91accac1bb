"""A hostile workload on PostgreSQL: silver holds what PostgreSQL holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from cdc_assets_tests.hostile.course import World, play_world
from cdc_assets_tests.hostile.names import SCHEMA, quoted
from cdc_assets_tests.hostile.postgresql_alter import alter
from cdc_assets_tests.hostile.postgresql_changes import Sessions
from cdc_assets_tests.hostile.postgresql_compare import in_silver, in_source
from cdc_assets_tests.hostile.postgresql_tables import Column, Table, draw, plain
from cdc_assets_tests.hostile.postgresql_values import SETUP, TYPES
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.hostile.world import HostileChain
from cdc_assets_tests.support.live.live_source import LiveSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]
TABLES, LARGE = 3, 5_000
SETTINGS = {
    "TimeZone": ("Asia/Kolkata", "America/St_Johns"),
    "DateStyle": ("German", "SQL, DMY"),
    "IntervalStyle": ("iso_8601", "sql_standard", "postgres_verbose"),
    "bytea_output": ("escape",),
    "extra_float_digits": ("0", "-4"),
}
"""Of the role that the connector is, which the values must not depend on."""


class PostgresqlWorld(World):
    """Its tables in PostgreSQL."""

    altered = 0.06

    def __init__(self, live: LiveSource, seed: int) -> None:
        super().__init__(seed)
        self.live = replace(live, name=f"hostile{seed}")
        self.schema = f"{SCHEMA}{seed}"
        self.tables = [draw(self.random, self.schema, number) for number in range(TABLES)]
        huge = Table(self.schema, "huge", TABLES, [Column("id", "bigint", "{n}", required=True), Column("v", "text")], ("id",))
        huge.declared = {"name": quoted(self.schema, "huge")}
        huge.ddl = [f"CREATE TABLE {huge.sql} (id bigint PRIMARY KEY, v text)"]
        self.all = [*self.tables, huge]

    def create(self) -> None:
        """Types, tables, and rows for the first snapshot."""
        with self.connection() as connection:
            for statement in (
                *SETUP,
                *(f"CREATE SCHEMA {quoted(schema)}" for schema in (self.schema, plain(self.schema))),
                f"SET search_path TO {quoted(self.schema)}, public",
            ):
                connection.execute(statement.encode())
            for statement in (*TYPES, *(ddl for table in self.all for ddl in table.ddl)):
                connection.execute(statement.encode())
            for table in self.tables:
                for _ in range(self.random.choice((1, 1, 6))):
                    self.inserted(connection, table)

    def inserted(self, connection: psycopg.Connection, table: Table) -> None:
        try:
            connection.execute(table.insert(self.random, 4).encode())
        except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.NumericValueOutOfRange) as error:
            self.happened.append(str(error))

    def connection(self, *, autocommit: bool = True) -> psycopg.Connection:
        return self.live.connection(autocommit=autocommit)

    def connection_here(self) -> psycopg.Connection:
        """Where the world's types are found by their names."""
        connection = self.connection()
        connection.execute(f"SET search_path TO {quoted(self.schema)}, public".encode())
        return connection

    @contextmanager
    def settings(self) -> Iterator[None]:
        """The role has other settings than ours while the world is played."""
        with self.connection() as connection:
            for name, values in SETTINGS.items():
                if self.random.random() < 0.5:
                    connection.execute(f"ALTER ROLE live SET {name} = '{self.random.choice(values)}'".encode())
        try:
            yield
        finally:
            with self.connection() as connection:
                connection.execute("ALTER ROLE live RESET ALL")

    def sessions(self) -> Sessions:
        return Sessions(self.random, lambda: self.connection(autocommit=False), self.schema)

    def alter(self, sessions: Sessions, table: Table) -> str:
        return alter(sessions, table)

    def let_go(self, sessions: Sessions) -> None:
        """Who has truncated a table holds it, and Debezium waits for it when it starts (docs/how-to/preflight.md, table_lock)."""
        with self.connection() as connection:
            held = "SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation >= 16384 LIMIT 1"
            if connection.execute(held).fetchone() is not None:
                sessions.finish()

    def look(self) -> None:
        for table in self.all:
            table.look()

    def wrong_rows(self, chain: HostileChain) -> str:
        with self.connection_here() as connection:
            return chain.wrong_rows(self.all, partial(in_source, connection), partial(in_silver, connection))

    def huge(self, sessions: Sessions) -> None:
        """One transaction of ten thousand changes, with an aborted savepoint within."""
        table, session = self.all[-1].sql, sessions.open[0]
        for statement in (
            f"INSERT INTO {table} SELECT i, i FROM generate_series(1, {LARGE}) i",
            f"SAVEPOINT s; UPDATE {table} SET v = 'undone'; ROLLBACK TO SAVEPOINT s",
            f"UPDATE {table} SET v = v || ' changed' WHERE id % 2 = 0; DELETE FROM {table} WHERE id % 3 = 0",
            f"UPDATE {table} SET id = -id WHERE id % 7 = 0",
        ):
            session.execute(statement.encode())
        session.commit()

    def restart(self, sessions: Sessions) -> None:
        """The server dies with transactions open and prepared."""
        part = self.live.parts["postgres"]
        part.kill() if self.random.random() < 0.5 else part.stop()
        part.start()
        sessions.reopen()


def test_silver_is_what_postgresql_has(
    live: LiveSource, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "PostgreSQL", lambda seed: play_world(PostgresqlWorld(live, seed), remote, session, tmp_path / str(seed)))
