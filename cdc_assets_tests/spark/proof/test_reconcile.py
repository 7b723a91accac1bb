"""Silver against a live PostgreSQL at an exact cut: nothing is reported where nothing is wrong, and every planted damage is."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import compared_slices
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.proof.healing import heal
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.live.writers import at_work
from cdc_assets_tests.support.oracles.damage import PLANTED, plant
from spark.proof.key_order import KeyRange, TwoRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = [
    {"name": "public.ledger", "reconciliation": {"max_rows": 1000, "shares": 3}},
    {"name": "public.person", "sensitive": ["mail"]},
    "public.visit",
    {"name": "public.stay", "reconciliation": {"max_rows": 100, "shares": 2}},
    "public.retyped",
    {"name": "public.ignoring", "schema_changes": {"add": "ignore", "rename": "ignore"}},
]
# Both ranges are everything.
STAY = {"stay": TwoRanges(KeyRange(("day", "guest")), KeyRange(("day", "guest")))}
DDL = """
CREATE TYPE shade AS ENUM ('light', 'dark');
CREATE TABLE ledger (id int PRIMARY KEY, amount numeric(12,2), note text, at timestamptz);
CREATE TABLE person (country text, number bigint, mail text, height double precision, weight real, born date, seen timestamp,
  alarm time, tags text[], marks int[], picture bytea, adult boolean, code char(5), ref uuid, about jsonb, tone shade,
  flags bit(3), one bit(1), size numeric, network inet, span int4range, small smallint, PRIMARY KEY (country, number));
CREATE TABLE visit (page text, seconds int);
CREATE EXTENSION IF NOT EXISTS citext;
CREATE TABLE stay (day date, guest citext, paid numeric(9,2), PRIMARY KEY (day, guest));
INSERT INTO ledger SELECT i, i / 7.0, 'note ' || i, '2026-01-01 00:00:00.5+01'::timestamptz + i * interval '1 second'
  FROM generate_series(1, 3000) i;
INSERT INTO person SELECT 'c' || i % 7, i, CASE WHEN i % 3 > 0 THEN 'p' || i || '@ü.example' END, i / 3.0::float8, i / 3.0::real,
  '1970-01-01'::date + i, '2026-01-01'::timestamp + i * interval '1.000001 second', '12:00'::time + i * interval '1.5 second',
  CASE i % 4 WHEN 0 THEN '{}' WHEN 1 THEN '{a,NULL,"b,c"}' WHEN 2 THEN ARRAY[i::text, 'ü'] END, ARRAY[i, NULL, -i],
  decode(md5(i::text), 'hex'), i % 2 = 0, 'ab', md5(i::text)::uuid, jsonb_build_object('i', i), 'dark',
  (i % 8)::bit(3), (i % 2)::bit(1), i / 8.0, '10.0.0.1', int4range(i, i + 5), i FROM generate_series(1, 500) i;
INSERT INTO person (country, number, height, weight, size, alarm) VALUES
  ('x', 1, 'NaN', 'Infinity', 'NaN', '24:00'), ('x', 2, -0.0, 1e-45, 'Infinity', '00:00:00.000001'),
  -- What a processor makes is a NaN with a sign.
  ('x', 5, 'Infinity'::float8 - (SELECT 'Infinity'::float8), (SELECT 'Infinity'::real) - 'Infinity'::real, 1e20, NULL),
  ('x', 3, 5e-324, -3.4e38, 1e20, NULL), ('', 4, 1.7976931348623157e308, 0.1, 0.0000001, NULL);
INSERT INTO visit SELECT 'p' || i % 5, i % 50 FROM generate_series(1, 400) i;
CREATE TABLE retyped (id int PRIMARY KEY, v int, price numeric(12,4));
CREATE TABLE ignoring (id int PRIMARY KEY, v int);
INSERT INTO retyped SELECT i, i, i + 0.5 FROM generate_series(1, 20) i;
INSERT INTO ignoring SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO stay SELECT '2026-01-01'::date + i % 9, CASE i % 2 WHEN 0 THEN 'Guest ' ELSE 'guest ' END || i, i
  FROM generate_series(1, 300) i;
"""


@pytest.fixture(scope="module")
def chain(live: LiveSource, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallChain]:
    own = replace(live, name="reconcile")
    with own.connection() as connection:
        connection.execute(DDL)
    with small_chain(own, remote, session, tmp_path_factory.mktemp("reconcile"), TABLES) as made:
        yield made


def only_equal(chain: SmallChain, *tables: str, during: Callable[[], None] | None = None) -> None:
    results = chain.compare(tables or ["ledger", "visit", "stay"], during=during, slices=STAY)
    assert {name: r.sentence() for name, r in results.items() if not r.equal} == {}


def test_equal_in_every_type(chain: SmallChain) -> None:
    results = chain.compare(["ledger", "person", "visit", "stay"])
    assert {name: (r.verdict, r.reason, r.differences[:2]) for name, r in results.items()} == dict.fromkeys(
        ("ledger", "person", "visit", "stay"), ("equal", "", ())
    )
    assert [(r.source_rows, r.silver_rows) for r in results.values()] == [(3000, 3000), (505, 505), (400, 400), (300, 300)]
    assert not any(r.not_compared for r in results.values())
    tables = [chain.source.table(t) for t in ("ledger", "person")]
    shared = compare_rows(
        Chain(chain.platform, chain.source), tables, ComparisonRequest({"ledger": (3, 127), "person": (3, 127)})
    )
    assert {(r.verdict, r.share) for r in shared.values()} == {("equal", "4/127")}
    # Keys 1 to 3000 that leave 3 when divided by 127.
    assert (shared["ledger"].source_rows, shared["ledger"].buckets) == (24, 9)


@pytest.mark.all
def test_columns_that_silver_has_otherwise(chain: SmallChain) -> None:
    """A change of type has a column beside the old one, and what is ignored is not in silver: rows are compared all the same."""
    with chain.live.connection() as connection:
        # Prices of the rows that no event tells of are rounded in the source, and not in silver: the table was written anew.
        connection.execute("ALTER TABLE retyped ALTER v TYPE text, ALTER price TYPE numeric(10,0)")
        connection.execute("ALTER TABLE ignoring ADD COLUMN more int DEFAULT 3")
        connection.execute("ALTER TABLE ignoring RENAME v TO w")
        for table, column in (("retyped", "v"), ("ignoring", "w")):
            connection.execute(f"UPDATE {table} SET {column} = '7' WHERE id < 5".encode())
            connection.execute(f"UPDATE {table} SET {column} = NULL WHERE id = 6".encode())
            connection.execute(f"INSERT INTO {table} (id, {column}) VALUES (21, '21')".encode())
        connection.execute("INSERT INTO retyped VALUES (22, 'new', 1)")
    chain.advance()
    found = chain.compare(["retyped", "ignoring"])
    assert (found["ignoring"].verdict, found["ignoring"].reason) == ("equal", "")
    assert found["ignoring"].not_compared == {"more": "schema_changes: {add: ignore} keeps it out of silver"}
    differing = {d.key: d.columns for d in found["retyped"].differences}
    assert differing == {f"{i};": ("price",) for i in (5, *range(7, 21))}


def test_transactions_around_the_cut(chain: SmallChain) -> None:
    """Open across the cut, in savepoints, prepared, the youngest of all, and committed in another order than written."""
    first, second, third, youngest = (chain.live.connection(autocommit=False) for _ in range(4))
    with first, second, third, youngest, chain.live.connection() as other:
        first.execute("UPDATE ledger SET note = 'first' WHERE id < 20")
        first.execute("UPDATE stay SET guest = upper(guest::text) || 'x' WHERE paid < 20")
        first.execute("DELETE FROM stay WHERE paid BETWEEN 20 AND 30")
        second.execute("SAVEPOINT a")
        second.execute("UPDATE ledger SET amount = 0 WHERE id BETWEEN 20 AND 30")
        second.execute("SAVEPOINT b")
        second.execute("DELETE FROM ledger WHERE id BETWEEN 31 AND 40")
        second.execute("ROLLBACK TO SAVEPOINT b")
        second.execute("INSERT INTO ledger VALUES (9001, 1, 'second', now())")
        second.execute("INSERT INTO stay VALUES ('2026-01-01', 'second', 1)")
        third.execute("UPDATE ledger SET id = 9002 WHERE id = 50")
        third.execute("PREPARE TRANSACTION 'third'")
        other.execute("UPDATE ledger SET note = 'other' WHERE id = 60")
        other.execute("DELETE FROM ledger WHERE id = 61")
        other.execute("UPDATE stay SET guest = upper(guest::text) WHERE paid BETWEEN 40 AND 49")
        other.execute("INSERT INTO visit VALUES ('seen', 1)")
        # Not below the snapshot's xmax, and yet written before the cut.
        youngest.execute("UPDATE ledger SET note = 'youngest' WHERE id = 70")
        youngest.execute("INSERT INTO visit VALUES ('youngest', 1)")

        def during() -> None:
            second.commit()
            other.execute("UPDATE ledger SET note = 'after' WHERE id IN (1000, 9001)")
            other.execute("DELETE FROM ledger WHERE id = 1001")
            other.execute("UPDATE stay SET guest = 'after' WHERE paid = 60")
            other.execute("INSERT INTO visit VALUES ('unseen', 1)")
            first.commit()
            youngest.commit()
            other.execute("COMMIT PREPARED 'third'")
            chain.live.delivered()

        only_equal(chain, during=during)
        chain.advance(fold=False)
        only_equal(chain)


@contextmanager
def written(chain: SmallChain, *, pause: float = 0.02) -> Iterator[None]:
    """Two writers at work, on all keys but those that are damaged; `pause`: seconds after each transaction.

    Without one, PostgreSQL writes more the longer a comparison takes, and the next one has all of it before it.
    """

    def write(seed: int, stop: threading.Event) -> None:
        with chain.live.connection(autocommit=False) as connection:
            number = seed * 100_000 + int(time.monotonic() * 1000) % 50_000
            while not stop.is_set():
                number += 1
                try:
                    connection.execute("SAVEPOINT s")
                    change = "UPDATE ledger SET amount = amount + 1 WHERE id % 997 = %s AND id NOT BETWEEN 100 AND 108"
                    connection.execute(change.replace("id %", "id %%"), (number % 997,))
                    connection.execute("RELEASE SAVEPOINT s")
                    connection.execute("DELETE FROM ledger WHERE id = %s AND id NOT BETWEEN 100 AND 108", (number % 3000,))
                    connection.execute("INSERT INTO ledger VALUES (%s, 1.5, 'x', now())", (number,))
                    connection.execute("INSERT INTO visit VALUES ('load', %s)", (number,))
                    connection.execute("UPDATE stay SET day = day + 1 WHERE paid = %s", (number % 99 + 1,))
                    connection.rollback() if number % 5 == 0 else connection.commit()
                except psycopg.Error:
                    connection.rollback()
                time.sleep(pause)

    with at_work(write):
        yield


def test_equal_under_live_writes(chain: SmallChain) -> None:
    with written(chain):
        only_equal(chain)


@pytest.mark.all
def test_the_view_of_now_is_compared_at_the_same_cut(chain: SmallChain) -> None:
    """Silver stays behind, bronze goes on, and others write. A damaged row of silver shows in the view as well."""
    chain.advance()
    silver = DeltaTable(chain.silver("ledger")).version()
    with chain.live.connection() as connection:
        connection.execute("UPDATE ledger SET amount = amount + 1 WHERE id % 7 = 0 AND id NOT BETWEEN 100 AND 108")
        connection.execute("DELETE FROM ledger WHERE id % 31 = 0 AND id NOT BETWEEN 100 AND 108")
    chain.advance(fold=False)
    with written(chain, pause=0.05):
        results = chain.compare(["ledger", "visit", "stay"], slices=STAY, view=True)
    assert {name: r.sentence() for name, r in results.items() if not r.equal} == {}
    assert DeltaTable(chain.silver("ledger")).version() == silver
    DeltaTable(chain.silver("ledger")).update(predicate="id = 104", updates={"note": "'else'"})
    found = chain.compare(["ledger"], view=True)["ledger"]
    assert [(d.key, d.kind, d.where, d.columns) for d in found.differences] == [("104;", "differs", "silver", ("note",))]
    DeltaTable(chain.silver("ledger")).update(predicate="id = 104", updates={"note": "'note 104'"})
    only_equal(chain, "ledger")


def test_every_damage_is_found(chain: SmallChain) -> None:
    with chain.live.connection() as connection:
        connection.execute("DELETE FROM ledger WHERE id BETWEEN 100 AND 108")
        connection.execute("INSERT INTO ledger SELECT i, i, 'note ' || i, now() FROM generate_series(100, 108) i")
        connection.execute("UPDATE ledger SET amount = NULL WHERE id = 104")
    chain.advance()
    plant(chain.silver("ledger"))
    result = chain.compare(["ledger"])["ledger"]
    assert result.verdict == "different", result.reason
    assert {d.key: d.kind for d in result.differences} == PLANTED
    assert {d.where for d in result.differences} == {"silver"}
    assert one_round(chain, result.source_rows or 0) == Counter(PLANTED.keys())
    by_key = {d.key: d for d in result.differences}
    assert by_key["103;"].columns == ("amount",)
    assert (by_key["104;"].source or {})["amount"] is None
    assert heal(Chain(chain.platform, chain.source), chain.source.table("ledger"), result) == (len(PLANTED), 0)
    only_equal(chain, "ledger")


def one_round(chain: SmallChain, rows: int) -> Counter[str]:
    """The differing keys of the runs that the check makes, from the first key to the last: each in one of them."""
    found, seen, runs = Counter[str](), 0, 0
    for result in ranges(chain, "ledger", "ledger"):
        runs += 1
        assert result.share.startswith("keys ")
        seen += result.source_rows or 0
        found.update(d.key for d in result.differences)
    # Silver has one row more, the phantom; the ends of its ranges are found in a sample.
    assert (seen, runs) in ((rows, 3), (rows, 4))
    return found


def ranges(chain: SmallChain, name: str, place: str) -> Iterator[TableResult]:
    """The scheduled check's runs of a table, until the cursor of that place is at its end."""
    table, columns = chain.source.table(name), ("id",) if name == "ledger" else ("day date", "guest citext")
    while True:
        parts = compared_slices.slices_now(Chain(chain.platform, chain.source), [table])
        results = compare_rows(Chain(chain.platform, chain.source), [table], ComparisonRequest(parts))
        compared_slices.advance_cursors(chain.source, parts, results)
        yield results[name]
        if compared_slices.last_compared_key(chain.source.name, place, columns) is None:
            return


@pytest.mark.all
def test_every_damage_is_found_where_no_order_is_known(chain: SmallChain) -> None:
    """A date and a text without case: in the source's order and in silver's, once each."""
    with chain.live.connection() as connection:
        connection.execute("DELETE FROM stay")
        connection.execute(
            "INSERT INTO stay SELECT '2026-02-01'::date + i % 9, 'Guest ' || i, i FROM generate_series(101, 400) i"
        )
    chain.advance()
    silver = DeltaTable(chain.silver("stay"))
    whole = silver.to_pyarrow_table()
    rows = {int(row["paid"]): row for row in whole.to_pylist()}
    assert len(rows) == 300
    rows[101]["guest"] = "gUEST 101"
    rows[102]["paid"] += 1
    del rows[103]
    damaged = [*rows.values(), {**rows[105], "guest": "never"}]
    write_deltalake(str(chain.silver("stay")), pa.Table.from_pylist(damaged, schema=whole.schema), mode="overwrite")
    planted = {"2026-02-03;9:Guest 101;": "missing", "2026-02-03;9:gUEST 101;": "phantom", "2026-02-04;9:Guest 102;": "differs"}
    planted |= {"2026-02-05;9:Guest 103;": "missing", "2026-02-07;5:never;": "phantom"}
    # Half as many keys of silver as of the source in a run: the source's second round finds the same again.
    runs = [*ranges(chain, "stay", compared_slices.cursor_of_silver("stay"))]
    assert [(r.source_rows, r.looked_up) for r in runs] == [(150, 75)] * 4
    found = [(d.key, d.kind) for at, r in enumerate(runs) for d in r.differences if at < 2 or d.kind == "phantom"]
    assert Counter(found) == Counter(planted.items())
    assert runs[0].share.startswith("the source's keys <= 2026-02-0")
    healed = heal(Chain(chain.platform, chain.source), chain.source.table("stay"), chain.compare(["stay"], slices=STAY)["stay"])
    assert healed == (len(planted), 0)
    only_equal(chain, "stay")


@pytest.mark.all
def test_a_loss_in_bronze_is_told_from_one_in_silver(chain: SmallChain) -> None:
    with chain.live.connection() as connection:
        connection.execute("INSERT INTO ledger VALUES (7001, 1, 'kept', now()), (7002, 1, 'lost in bronze', now())")
        connection.execute("INSERT INTO person (country, number, mail) VALUES ('s', 1, 'secret@example.org')")
    chain.advance(fold=False)
    bronze = DeltaTable(str(chain.root / "bronze" / chain.source.name))
    (lost,) = [r for r in bronze.to_pyarrow_table().to_pylist() if b"lost in bronze" in (r["value"] or b"")]
    bronze.delete(f"table = 'ledger' AND offset = {lost['offset']}")
    chain.fold()
    DeltaTable(chain.silver("person")).update(predicate="country = 's'", updates={"mail": "'else'"})
    results = chain.compare(["ledger", "person"])
    assert [(d.key, d.kind, d.where) for d in results["ledger"].differences] == [("7002;", "missing", "bronze or before it")]
    (difference,) = results["person"].differences
    assert (difference.where, difference.columns) == ("silver", ("mail",))
    assert "secret@example.org" not in str(results["person"].to_json())

    asked = {t: heal(Chain(chain.platform, chain.source), chain.source.table(t), results[t]) for t in ("ledger", "person")}
    assert asked == {"ledger": (0, 1), "person": (1, 0)}
    deadline = time.monotonic() + 400
    while not all(r.equal for r in chain.compare(["ledger", "person"]).values()):
        assert time.monotonic() < deadline
