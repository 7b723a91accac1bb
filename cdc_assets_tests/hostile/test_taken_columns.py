"""Tables with columns called as names that our code gives, through the chain: silver is the source, and each damage is found.

The names are read from the code (support.given_names). The oracle is the database itself, beside delta-rs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.healing import heal
from cdc_assets_tests.hostile.world import HostileChain, hostile_chain
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.taken_names import taken_names, values_of
from spark.proof.key_order import KeyRange, TwoRanges
from spark.table.identifiers import double_quote, quote, table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.all]

NAMES = taken_names()
KEY = ("b", "rank", "row")
PLAIN = [name for name in NAMES if " " not in name]
"""A name with a blank makes a table that tasks without Spark leave alone: of the others they fold."""
EVERYWHERE = ("gone", "cdc_gone", "cdc_micros", "hidden", "c0", "absent", "hash", "bucket", *KEY)


def share(part: int, names: list[str] = PLAIN) -> list[str]:
    """A third of the names, and some of them in each table: a plan of two hundred columns takes Spark minutes."""
    return [name for place, name in enumerate(names) if place % 3 == part or name in EVERYWHERE]


TABLES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "keyed": (["id", *share(0, NAMES)], {"history": "scd2"}),
    "soft": (["id", *share(1)], {"deletes": "soft"}),
    "three": ([*KEY, *(name for name in share(2) if name not in KEY)], {}),
    "whole": (["id", *share(2)], {"without_key": "multiset"}),
}
KEYS = {"keyed": ("id",), "soft": ("id",), "three": KEY, "whole": ()}
ROWS = 24


@dataclass(frozen=True)
class Taken:
    """The tables in one database: how it executes, answers, and quotes names."""

    schema: str
    execute: Callable[[str], Any]
    query: Callable[[str], Sequence[Sequence[Any]]]
    quoted: Callable[[str], str]

    def create(self) -> None:
        for table, (names, _) in TABLES.items():
            key = f", PRIMARY KEY ({self.listed(KEYS[table])})" if KEYS[table] else ""
            columns = ", ".join(f"{self.quoted(name)} int NOT NULL" for name in names)
            self.execute(f"CREATE TABLE {self.schema}.{table} ({columns}{key})")
            self.insert(table, range(ROWS))

    def insert(self, table: str, numbers: Sequence[int]) -> None:
        names, _ = TABLES[table]
        rows = []
        for number in numbers:
            own = [number] if "id" in names else [number % 2, number % 3, number]
            rows.append(f"({', '.join(map(str, [*own, *values_of(number, names[len(own) :])]))})")
        self.execute(f"INSERT INTO {self.schema}.{table} ({self.listed(names)}) VALUES {', '.join(rows)}")

    def change(self) -> None:
        """Values, rows that go and come, and keys that become others."""
        for table in TABLES:
            number, place = self.quoted("id" if table != "three" else "row"), f"{self.schema}.{table}"
            for name in ("gone", "cdc_gone", "hidden", "c0"):
                self.execute(f"UPDATE {place} SET {self.quoted(name)} = {self.quoted(name)} + 10 WHERE {number} < 8")
            self.execute(f"DELETE FROM {place} WHERE {number} IN (5, 6, 21)")
            self.execute(f"UPDATE {place} SET {number} = {number} + 100 WHERE {number} = 9")
            self.insert(table, range(ROWS, ROWS + 4))

    def rows(self, table: str) -> Counter[tuple[int, ...]]:
        names, _ = TABLES[table]
        return Counter(tuple(map(int, row)) for row in self.query(f"SELECT {self.listed(names)} FROM {self.schema}.{table}"))

    def listed(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.quoted, names))

    @property
    def declared(self) -> list[dict[str, Any]]:
        return [{"name": f"{self.schema}.{table}", **more} for table, (_, more) in TABLES.items()]


def in_lake(path: str, table: str, condition: str) -> Counter[tuple[int, ...]]:
    return Counter(tuple(int(row[name]) for name in TABLES[table][0]) for row in read(path, condition))


def wrong_tables(chain: HostileChain, taken: Taken) -> list[str]:
    """Those of which silver, or what is current of its history, is not what the database has."""
    found = []
    for table, (_, more) in TABLES.items():
        path, wanted = chain.silver(f"{taken.schema}__{table}"), taken.rows(table)
        places = {path: "NOT _cdc_deleted" if more.get("deletes") == "soft" else "true"}
        if more.get("history"):
            places[f"{path}__history"] = "_is_current"
        found += [place for place, condition in places.items() if in_lake(place, table, condition) != wanted]
    return found


def play(chain: HostileChain, taken: Taken) -> None:
    assert wrong_tables(chain, taken) == []
    taken.change()
    view = chain.compare([f"{taken.schema}__soft"], view=True)
    assert {name: result.sentence() for name, result in view.items() if not result.equal} == {}
    assert chain.not_equal() == {}
    chain.advance()
    assert wrong_tables(chain, taken) == []
    assert {what: found for what, found in chain.troubles().items() if found} == {}


def damage(chain: HostileChain, taken: Taken) -> None:
    """Two rows go, one has another value in a column that a statement once grouped by, and in one that frames named."""
    for table in TABLES:
        number, place = "`id`" if table != "three" else "`row`", table_at(chain.silver(f"{taken.schema}__{table}"))
        chain.session.sql(f"DELETE FROM {place} WHERE {number} IN (1, 2)").collect()
        for key, name in ((3, "cdc_micros"), (4, "gone")):
            chain.session.sql(f"UPDATE {place} SET `{name}` = 77 WHERE {number} = {key}").collect()
    told = chain.compare()
    for table in TABLES:
        result = told[f"{taken.schema}__{table}"]
        kinds = Counter(difference.kind for difference in result.differences)
        expected = {"missing": 2, "differs": 2} if KEYS[table] else {"missing": 4, "phantom": 2}
        assert (table, result.verdict, kinds) == (table, "different", expected), result.sentence()
        if KEYS[table]:
            columns = {column for difference in result.differences for column in difference.columns}
            assert columns == {"cdc_micros", "gone"}
    ranges = {f"{taken.schema}__three": TwoRanges(KeyRange(KEY), KeyRange(KEY))}
    by_range = chain.compare([f"{taken.schema}__three"], slices=ranges)[f"{taken.schema}__three"]
    assert (by_range.verdict, by_range.keys_differing) == ("different", 4)
    for table in ("keyed", "soft", "three"):
        name = f"{taken.schema}__{table}"
        assert heal(Chain(chain.platform, chain.source), chain.source.table(name), told[name]) == (4, 0)
    healed = chain.compare([f"{taken.schema}__{table}" for table in ("keyed", "soft", "three")])
    assert {name: result.sentence() for name, result in healed.items() if not result.equal} == {}
    assert [place for place in wrong_tables(chain, taken) if not place.endswith("__whole")] == []


def test_mariadb(mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path) -> None:
    server = mariadb.server
    taken = Taken("mtaken", server.execute, server.query, quote)
    server.execute("CREATE DATABASE mtaken")
    taken.create()
    with hostile_chain(mariadb.renamed("mtakenc"), remote, session, tmp_path, taken.declared) as chain:
        play(chain, taken)
        damage(chain, taken)


def test_postgresql(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    from dataclasses import replace

    with live.connection() as connection, _statements(connection) as (execute, query):
        execute("CREATE SCHEMA ptaken")
        taken = Taken("ptaken", execute, query, double_quote)
        taken.create()
        execute("ALTER TABLE ptaken.whole REPLICA IDENTITY FULL")
        with hostile_chain(replace(live, name="ptakenc"), remote, session, tmp_path, taken.declared) as chain:
            play(chain, taken)
            damage(chain, taken)


@contextmanager
def _statements(connection: Any) -> Iterator[tuple[Callable[[str], Any], Callable[[str], Any]]]:
    yield (lambda text: connection.execute(text.encode())), (lambda text: connection.execute(text.encode()).fetchall())
