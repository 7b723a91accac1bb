"""One round of two ranges finds each damaged row of silver once, and nothing else, whatever the source orders its keys by.

The oracle is the database: silver is what it holds, but for the damage that is planted at random; between the runs rows come, go
and change on both sides. `--all` plays five rounds of every kind of key, and texts in the order of en_US.UTF-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.proof import compared_slices
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import NAME, LiveSource
from cdc_assets_tests.support.live.played_table import KINDS, Database, Key, Kind, Place, Table
from cdc_assets_tests.support.servers.own_server import own_server
from spark.proof.bucket_sums import Task
from spark.proof.row_text import RowText
from spark.proof.snapshot_cut import Everything
from spark.proof.table_at_cut import Base
from spark.specs import Column, SilverSpec
from spark.table.commit_metadata import Committed, Folded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


def _kinds(dialect: str) -> list[Any]:
    """What is played often by itself, the rest with `--all`."""
    return [pytest.param(name, marks=[] if kind.often else [pytest.mark.all]) for name, kind in KINDS[dialect].items()]


@pytest.fixture
def rounds(thorough: bool) -> int:
    return 5 if thorough else 1


def round_of(table: Table, session: SparkSession, sessions: SparkSessions) -> tuple[Counter[str], Counter[str], int]:
    """The differences of the source's ranges and of silver's, each up to its end: `kind key`; and how many runs that took."""
    place, text = table.place, table.text
    id_ = TableId(place.schema, "played")
    theirs: Counter[str] = Counter()
    ours: Counter[str] = Counter()
    ends: list[Any] = [None, None]
    open_ = [True, True]
    for run in range(1, 30):
        if run > 1:
            table.write()
        version = table.fold(session)
        with open_cut(place.database, statement_timeout=60) as cut:
            after = (ends[0], ends[1])
            there = compared_slices.OwnOrderTable(cut, id_, text)
            part = compared_slices.following(sessions, there, version=version, count=80, after=after)
            in_range = cut.in_range(id_, text, part.source)
            base = Base(version, Folded(-1, {}), Committed(-1, {}), None, "")
            found = compared_slices.silver_at_cut(sessions, Task(text.spec, base, Everything()), there, part, in_range)
        missing, extra = in_range - found.rows, found.rows - in_range
        wanted, lost = {key for key, _ in in_range}, {key for key, _ in missing}
        told = {f"{'missing' if key not in {k for k, _ in extra} else 'differs'} {key}" for key in lost}
        told |= {f"twice {key}" for key, _ in extra if key in wanted - lost}
        theirs.update(told if open_[0] else ())
        ours.update(f"phantom {key}" for key, _ in extra if key not in wanted and open_[1])
        ends = [part.source.to, part.lake.to]
        open_ = [was and end is not None for was, end in zip(open_, ends, strict=True)]
        if not any(open_):
            return theirs, ours, run
    raise AssertionError(f"no end: {ends}")


def play(place: Place, kind: Kind, seed: int, session: SparkSession, remote: str, folder: Path) -> None:
    """One round; the first is small."""
    random = Random(seed)
    columns = [Column(f"k{i}", t, False, k, dialect=place.dialect) for i, (_, t, k, _) in enumerate(kind.columns)]
    number = Column("n", "integer" if place.dialect == "postgresql" else "int(11)", dialect=place.dialect)
    keys = tuple(c.name for c in columns)
    text = RowText(SilverSpec("s", "played", "none", str(folder / f"silver{seed}"), (*columns, number), keys))
    assert text.own is not None
    declared = ", ".join(f"k{i} {t}" for i, (t, *_) in enumerate(kind.columns))
    place.execute(f"DROP TABLE IF EXISTS {place.schema}.played", [()])
    place.execute(f"CREATE TABLE {place.schema}.played ({declared}, n int, PRIMARY KEY ({', '.join(keys)}))", [()])
    table = Table(place, text, random)
    table.begin({tuple(of(random) for *_, of in kind.columns) for _ in range(260 if seed else 140)}, kind.odd)
    theirs, ours, runs = round_of(table, session, SparkSessions(remote))
    expected = Counter(f"{kind} {key}" for key, kind in table.damage.items())
    assert theirs + ours == expected, (place.dialect, seed)
    assert runs >= 3


@pytest.mark.parametrize("kind", _kinds("postgresql"))
def test_postgresql(live: LiveSource, session: SparkSession, remote: str, tmp_path: Path, kind: str, rounds: int) -> None:
    with live.settings(), live.connection() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS ranges")
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext")
        connection.execute("DROP TYPE IF EXISTS tint CASCADE; CREATE TYPE tint AS ENUM ('light', 'dark')")
        database = PostgresDatabase(replace(live, name="ranges").source(["ranges.played"]).database)  # type: ignore[arg-type]
        for seed in range(rounds):
            play(_postgresql(database, connection), KINDS["postgresql"][kind], seed, session, remote, tmp_path)


@pytest.mark.parametrize("kind", _kinds("mariadb"))
def test_mariadb(mariadb: LiveMariaDb, session: SparkSession, remote: str, tmp_path: Path, kind: str, rounds: int) -> None:
    mariadb.server.execute("CREATE DATABASE IF NOT EXISTS ranges")
    own = mariadb.renamed("ranges")
    with own.settings(), own.server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")

        def execute(statement: str, rows: Sequence[Key]) -> None:
            for row in rows:
                cursor.execute(statement, row or None)

        def query(statement: str) -> Sequence[Sequence[Any]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        database = MariaDbDatabase(own.source(["ranges.played"]).database)  # type: ignore[arg-type]
        place = Place("mariadb", database, "ranges", execute, query)
        for seed in range(rounds):
            play(place, KINDS["mariadb"][kind], seed, session, remote, tmp_path)


@pytest.mark.all
@pytest.mark.parametrize("kind", KINDS["en_US"])
def test_en_us(
    session: SparkSession, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: LiveSource, kind: str, rounds: int
) -> None:
    monkeypatch.setenv("CDC_SECRET_LIVE", "ranges")
    with (
        own_server(tmp_path, password="ranges", locale="en_US.UTF-8") as server,
        server.connection() as connection,
    ):
        connection.autocommit = True
        connection.execute("CREATE SCHEMA ranges")
        connection.execute("CREATE COLLATION en (provider = libc, locale = 'en_US.UTF-8')")
        source = replace(live, name=NAME, postgres=server.postgres).source(["ranges.played"])
        database = PostgresDatabase(source.database)  # type: ignore[arg-type]
        for seed in range(rounds):
            play(_postgresql(database, connection), KINDS["en_US"][kind], seed, session, remote, tmp_path)


def _postgresql(database: Database, connection: Any) -> Place:
    def execute(statement: str, rows: Sequence[Key]) -> None:
        with connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statement.encode(), row or None)

    def query(statement: str) -> Sequence[Sequence[Any]]:
        return list(connection.execute(statement.encode()).fetchall())

    connection.execute("SET TimeZone = 'UTC'")
    return Place("postgresql", database, "ranges", execute, query)
