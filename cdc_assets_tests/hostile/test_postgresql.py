"""A hostile workload on PostgreSQL: silver holds what PostgreSQL holds, and reconcile says so (docs/how-to/testing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest

from cdc_assets.preflight.capturable import refuse_inexact
from cdc_assets.registry_files.collisions import find_collisions
from cdc_assets_tests.hostile.names import SCHEMA, quoted
from cdc_assets_tests.hostile.postgresql_alter import alter
from cdc_assets_tests.hostile.postgresql_changes import Sessions
from cdc_assets_tests.hostile.postgresql_compare import in_silver, in_source
from cdc_assets_tests.hostile.postgresql_tables import Column, Table, draw, plain
from cdc_assets_tests.hostile.postgresql_values import SETUP, TYPES
from cdc_assets_tests.hostile.seeds import play_seeds
from cdc_assets_tests.hostile.world import hostile_chain, tell_of
from cdc_assets_tests.support.live.live_source import LiveSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]
TABLES, STEPS, LARGE = 3, 80, 5_000
SETTINGS = {
    "TimeZone": ("Asia/Kolkata", "America/St_Johns"),
    "DateStyle": ("German", "SQL, DMY"),
    "IntervalStyle": ("iso_8601", "sql_standard", "postgres_verbose"),
    "bytea_output": ("escape",),
    "extra_float_digits": ("0", "-4"),
}
"""Of the role that the connector is, which the values must not depend on."""


class World:
    """The tables of one seed, and what happens to them."""

    def __init__(self, live: LiveSource, seed: int) -> None:
        self.random, self.seed = Random(seed), seed
        self.live = replace(live, name=f"hostile{seed}")
        self.schema = f"{SCHEMA}{seed}"
        self.tables = [draw(self.random, self.schema, number) for number in range(TABLES)]
        huge = Table(self.schema, "huge", TABLES, [Column("id", "bigint", "{n}", required=True), Column("v", "text")], ("id",))
        huge.declared = {"name": quoted(self.schema, "huge")}
        huge.ddl = [f"CREATE TABLE {huge.sql} (id bigint PRIMARY KEY, v text)"]
        self.all = [*self.tables, huge]
        self.happened: list[str] = []

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

    def play(self, sessions: Sessions, steps: int) -> None:
        """Crossed statements; of even seeds with a change of some table now and then."""
        for _ in range(steps):
            sessions.step(self.tables)
            if self.seed % 2 == 0 and self.random.random() < 0.06:
                table = self.random.choice(self.tables)
                self.happened.append(f"{alter(sessions, table)} {table.name!r}")

    def write(self, sessions: Sessions) -> None:
        """What happens while a comparison runs; it refuses a table that is altered or truncated under it."""
        for _ in range(15):
            sessions.step(self.tables, truncate=False)

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


def play(live: LiveSource, remote: str, session: SparkSession, root: Path, seed: int) -> None:
    """One world, from its first snapshot to the comparison of every table."""
    world = World(live, seed)
    world.create()
    declared = [table.declared for table in world.all]
    source = world.live.source(declared)
    assert list(find_collisions([source])) == []
    with world.settings(), hostile_chain(world.live, remote, session, root, declared) as chain, tell_of(world.happened):
        database = chain.platform.database(source)
        refuse_inexact(database, source, database.tables([table.id for table in source.tables]), snapshot=True)
        sessions = Sessions(world.random, lambda: world.connection(autocommit=False), world.schema)
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
                for table in world.all:
                    table.look()
            world.play(sessions, STEPS // 2)
            sessions.finish()
            chain.advance()
            with world.connection_here() as connection:
                told["rows"] = chain.wrong_rows(world.all, partial(in_source, connection), partial(in_silver, connection))
            told |= chain.troubles()
        assert not any(told.values()), "\n".join(f"{what}: {found}" for what, found in told.items() if found)


def test_silver_is_what_postgresql_has(
    live: LiveSource, remote: str, session: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    play_seeds(request, "PostgreSQL", lambda seed: play(live, remote, session, tmp_path / str(seed), seed))
