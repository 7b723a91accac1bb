"""The two-step method with a live database under writes: suspects are cleared or confirmed, a key that never rests is in
flight.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.clients.databases.row_pages import Connection, PagedRows, RowReader, SqlReader
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.compared_table import TWO_STEP, WHOLE_TABLES, ComparisonRequest, SourceSide, Way
from cdc_assets.proof.comparison import compare_by, compare_rows
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.proof.healing import heal
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.live.writers import at_work
from spark.values.hashing_dialects import PostgreSqlDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

ROWS, QUIET = 3000, 100
"""Keys up to QUIET are not written to."""


@dataclass
class Ground:
    """One table of one server; `run` runs statements in a session of its own, each committed."""

    chain: SmallChain
    name: str
    run: Callable[..., None]
    reader: RowReader | None = None
    """Reads rows by pages, as it is done of databases that write no texts themselves."""

    def compare(self) -> TableResult:
        source = self.chain.source
        chain = Chain(self.chain.platform, source)
        if self.reader is None:
            return compare_rows(chain, source.tables, ComparisonRequest(two_step=True))[self.name]
        catalogue = chain.platform.database(source).tables([t.id for t in source.tables])
        rows, carry = PagedRows(self.reader), partial(carry_to_lake, chain, deadline=400)
        side = SourceSide(rows, carry, catalogue, unwritten=rows.unwritten)
        return compare_by(chain, Way(source.tables, TWO_STEP, lambda: nullcontext(side)), WHOLE_TABLES)[self.name]

    @contextmanager
    def written(self, *, pause: float) -> Iterator[None]:
        def write(seed: int, stop: threading.Event) -> None:
            number = seed * 100_000
            while not stop.wait(pause):
                number += 1
                key = QUIET + 1 + number * 7 % (ROWS - QUIET)
                with suppress(Exception):  # two writers' deadlock: one of them is rolled back
                    self.run(
                        f"UPDATE {self.place} SET amount = amount + 1 WHERE id > {QUIET} AND id % 97 = {number % 97}",
                        f"DELETE FROM {self.place} WHERE id = {key}",
                        f"INSERT INTO {self.place} VALUES ({number}, 1.5, 'load')",
                    )

        with at_work(write):
            yield

    @property
    def place(self) -> str:
        return self.chain.source.tables[0].name


class PostgresPages(Connection):
    """PostgreSQL, read as a server that is asked for nothing but pages."""

    dialect = PostgreSqlDialect()

    def __init__(self, live: LiveSource) -> None:
        self.live = live

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        with self.live.connection() as connection, connection.cursor() as cursor:
            yield cursor


@pytest.fixture(scope="module", params=["postgresql", "mariadb", "pages"])
def ground(
    request: pytest.FixtureRequest, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    root = tmp_path_factory.mktemp("twostep")
    create = "CREATE TABLE {} (id int PRIMARY KEY, amount numeric(12,2), note varchar(40))"
    if request.param == "mariadb":
        maria: LiveMariaDb = request.getfixturevalue("mariadb").renamed("twomaria")
        fill = f"INSERT INTO twostep.t SELECT seq, seq / 7, CONCAT('note ', seq) FROM twostep.seq_1_to_{ROWS}"
        maria.server.execute("CREATE DATABASE twostep", create.format("twostep.t"), fill)
        with small_chain(maria, remote, session, root, ["twostep.t"]) as chain:
            yield Ground(chain, "twostep__t", maria.server.execute)
        return
    name = {"postgresql": "twostep", "pages": "twopages"}[request.param]
    live: LiveSource = replace(request.getfixturevalue("live"), name=name)

    def run(*statements: str) -> None:
        with live.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    fill = f"INSERT INTO {name} SELECT i, i / 7.0, 'note ' || i FROM generate_series(1, {ROWS}) i"
    run(create.format(f"public.{name}"), fill)
    with small_chain(live, remote, session, root, [f"public.{name}"]) as chain:
        yield Ground(chain, name, run, SqlReader(PostgresPages(live)) if request.param == "pages" else None)


def test_suspects_are_cleared_or_confirmed_under_writes(ground: Ground) -> None:
    with ground.written(pause=0.3):
        time.sleep(2)
        found = ground.compare()
        assert (found.verdict, found.method) == ("equal", "two-step"), found.sentence()
        silver = DeltaTable(ground.chain.silver(ground.name))
        silver.update(predicate="id = 7", updates={"note": "'stale'"})
        silver.delete("id = 8")
        found = ground.compare()
        assert found.verdict == "different", found.sentence()
        assert {d.key: (d.kind, d.where) for d in found.differences} == {"7;": ("differs", "silver"), "8;": ("missing", "silver")}
        table = ground.chain.source.tables[0]
        assert heal(Chain(ground.chain.platform, ground.chain.source), table, found) == (2, 0)
        assert ground.compare().verdict == "equal"


def test_a_key_that_never_rests_is_in_flight(ground: Ground) -> None:
    """Its rows of both sides are never of one moment: neither equal nor different can be said."""
    stop = threading.Event()

    def write() -> None:
        with suppress(Exception):
            # Often enough, a marker's way into the lake takes longer; and no more events than a slow machine folds in time.
            while not stop.wait(0.005):
                ground.run(f"UPDATE {ground.place} SET amount = amount + 1 WHERE id = 50")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = ground.compare()
    finally:
        stop.set()
        writer.join()
    assert found.verdict == "inconclusive", found.sentence()
    assert found.reason == "1 key in flight in every round"
    assert ground.compare().verdict == "equal"
