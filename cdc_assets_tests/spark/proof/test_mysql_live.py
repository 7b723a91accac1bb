"""A real MySQL, its connector, and silver: rows compared at an exact cut and by pages under writers, and keys read again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.comparison_result import RowDifference, TableResult
from cdc_assets.proof.healing import heal
from cdc_assets.registry import names
from cdc_assets.registry.source_settings import Reconciliation
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.mysql_captured import Declared, captured, records
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.live.writers import at_work
from cdc_assets_tests.support.oracles.damage import PLANTED, plant
from cdc_assets_tests.support.values.mysql_values import EXACT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

LEDGER = {
    "id": "integer not null",
    "amount": "numeric(12,2)",
    "note": "character varying(60)",
    "at": "timestamp(3) with time zone",
}
PERSON = {"country": "text not null", "number": "bigint unsigned not null", "mail": "text", "height": "double precision"}
KINDS = {"id": "integer not null", **{f"c{i}": kind for i, (kind, _) in enumerate(EXACT.values())}, "doc": "json", "f": "real"}
YEAR = f"c{[*EXACT].index('year')}"
CODES = {"code": "text not null", "v": "integer"}
ODD = {"id": "integer not null", "born": "date", "at": "timestamp(0) without time zone", "t": "time(6) without time zone"}
TABLES: list[Declared] = [
    {"name": "rec.ledger", "keys": ["id"], "columns": LEDGER},
    {"name": "rec.person", "keys": ["country", "number"], "columns": PERSON},
    {"name": "rec.kinds", "keys": ["id"], "columns": KINDS},
    {"name": "rec.codes", "keys": ["code"], "columns": CODES},
    {"name": "rec.odd", "keys": ["id"], "columns": ODD},
]
SEQUENCE = "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT {} FROM s"
DDL = (
    "SET SESSION cte_max_recursion_depth = 100000",
    "CREATE DATABASE rec",
    "CREATE TABLE rec.ledger (id int PRIMARY KEY, amount decimal(12,2), note varchar(60), at timestamp(3) NULL)",
    "INSERT INTO rec.ledger "
    + SEQUENCE.format(3000, "n, n / 7, CONCAT('note ', n), '2026-01-01 00:00:00.5' + INTERVAL n SECOND"),
    "CREATE TABLE rec.person (country varchar(9) CHARACTER SET latin2, number bigint unsigned, mail text, height double, "
    "PRIMARY KEY (country, number))",
    "INSERT INTO rec.person " + SEQUENCE.format(500, "CONCAT('ž', n % 7), n, IF(n % 3, CONCAT('p', n, '@ü'), NULL), n / 3"),
    "INSERT INTO rec.person VALUES ('', 18446744073709551615, '', -0e0), ('a;', 1, ';', 5e-324), ('%', 2, '%s', 1.5e308)",
    "CREATE TABLE rec.codes (code varchar(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v int)",
    "INSERT INTO rec.codes "
    + SEQUENCE.format(7000, "CONCAT(ELT(1 + n % 6, 'a', 'B', 'ä', 'Z', '', 'ß'), n, ELT(1 + n % 2, 'x', 'Y')), n"),
    "CREATE TABLE rec.odd (id int PRIMARY KEY, born date, at datetime, t time(6))",
    "CREATE TABLE rec.kinds (id int PRIMARY KEY, doc json, f float"
    + "".join(f", c{i} {kind} NULL" for i, kind in enumerate(EXACT))
    + ")",
)


def every_kind(first: int) -> list[str]:
    """A row for each value of each kind, from this id on."""
    listed = [(f"c{i}", sql) for i, (_, sqls) in enumerate(EXACT.values()) for sql in sqls]
    return [f"INSERT INTO rec.kinds (id, {column}) VALUES ({first + n}, {sql})" for n, (column, sql) in enumerate(listed)]


@pytest.fixture(scope="module")
def chain(mysql: LiveMySql, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallChain]:
    own = captured(mysql, "mysqlrec")
    own.server.execute(*DDL, *every_kind(1))
    with small_chain(own, remote, session, tmp_path_factory.mktemp("mysqlrec"), TABLES) as made:
        yield made


def compared(chain: SmallChain, *tables: str) -> dict[str, TableResult]:
    chosen = [t for t in chain.source.tables if not tables or names.table_name(t) in tables]
    return compare_rows(Chain(chain.platform, chain.source), chosen, ComparisonRequest(timeout=180, two_step=True))


def at_cut(chain: SmallChain, *tables: str) -> dict[str, TableResult]:
    """As `cdc reconcile` does it."""
    chosen = [t for t in chain.source.tables if not tables or names.table_name(t) in tables]
    return compare_rows(Chain(chain.platform, chain.source), chosen, ComparisonRequest(timeout=180))


def told(results: Mapping[str, TableResult]) -> dict[str, Any]:
    """What is not equal, with values."""

    def one(d: RowDifference) -> tuple[Any, ...]:
        return d.key, d.kind, [(c, (d.source or {}).get(c), (d.silver or {}).get(c)) for c in d.columns]

    return {name: (r.sentence(), [one(d) for d in r.differences[:20]]) for name, r in results.items() if not r.equal}


def test_equal_in_every_type(chain: SmallChain) -> None:
    """`rec.kinds` has a length of time that is declared as a bigint: it is compared in pages, the others at the cut."""
    chain.live.server.execute(
        *every_kind(1001),
        "INSERT INTO rec.kinds (id, doc, f) VALUES (5000, '{\"a\": [1.0, null]}', 0.1), (5001, '[]', 16777216)",
        "INSERT INTO rec.person VALUES ('streamed', 1, 'ü', 0.1)",
        "INSERT INTO rec.codes VALUES ('Ä-streamed', 1)",
        "UPDATE rec.codes SET code = 'A6X' WHERE code = 'a6x'",
        "DELETE FROM rec.codes WHERE v = 7",
    )
    chain.advance()
    results = at_cut(chain)
    assert told(results) == {}
    assert {name: (r.method, r.source_rows) for name, r in results.items()} == {
        "rec__ledger": ("cut", 3000),
        "rec__person": ("cut", 504),
        "rec__kinds": ("two-step", 2 * len(every_kind(0)) + 2),
        "rec__codes": ("cut", 7000),
        "rec__odd": ("cut", 0),
    }
    (place,) = {r.lsn for r in results.values() if r.method == "cut"}
    assert place.startswith("binlog.")
    assert {name: [*r.not_compared] for name, r in results.items() if r.not_compared} == {"rec__kinds": ["doc"]}


def test_pages_say_the_same_of_every_table(chain: SmallChain) -> None:
    """By the place of the binlog: neither a lock is taken nor a marker table needed, as once a day by the schedule."""
    alone = chain.source.model_copy(update={"reconciliation": Reconciliation()})
    assert len(alone.rows_tables) == len(TABLES)
    daily = ComparisonRequest(timeout=180, two_step=True)
    results = compare_rows(Chain(chain.platform, alone), alone.rows_tables, daily)
    assert (told(results), {r.method for r in results.values()}) == ({}, {"two-step"})
    assert {r.lsn.split(".")[0] for r in results.values()} == {"binlog"}
    assert {name: r.source_rows for name, r in results.items()} == {n: r.source_rows for n, r in at_cut(chain).items()}


def test_equal_under_live_writes_and_every_damage_is_found(chain: SmallChain) -> None:
    server = chain.live.server

    def write(seed: int, stop: threading.Event) -> None:
        number = 10_000 + seed * 100_000
        while not stop.wait(0.2):
            number += 1
            with suppress(Exception):  # two writers' deadlock: one of them is rolled back
                server.execute(
                    f"UPDATE rec.ledger SET amount = amount + 1 WHERE id > 200 AND id % 997 = {number % 997}",
                    f"DELETE FROM rec.ledger WHERE id = {200 + number * 7 % 2800}",
                    f"INSERT INTO rec.ledger VALUES ({number}, 1.5, 'load', NOW(3))",
                    "FLUSH BINARY LOGS" if number % 20 == 0 else "DO 0",
                )

    server.execute("UPDATE rec.ledger SET amount = NULL WHERE id = 104")
    chain.advance()
    with at_work(write):
        time.sleep(2)
        found = compared(chain, "rec__ledger")
        assert told(found) == {}
        places = set()
        for _ in range(5):
            found = at_cut(chain, "rec__ledger")
            assert told(found) == {}
            assert found["rec__ledger"].method == "cut"
            places.add(found["rec__ledger"].lsn)
        assert len(places) == 5
        plant(chain.silver("rec__ledger"))
        exact = at_cut(chain, "rec__ledger")["rec__ledger"]
        assert {d.key: (d.kind, d.where) for d in exact.differences} == {key: (kind, "silver") for key, kind in PLANTED.items()}
        result = compared(chain, "rec__ledger")["rec__ledger"]
        assert {d.key: (d.kind, d.where) for d in result.differences} == {key: (kind, "silver") for key, kind in PLANTED.items()}
        by_key = {d.key: d for d in result.differences}
        assert by_key["103;"].columns == ("amount",)
        assert ((by_key["104;"].source or {})["amount"], (by_key["104;"].silver or {})["amount"]) == (None, "0.00")
        table = chain.source.tables[0]
        assert heal(Chain(chain.platform, chain.source), table, exact) == (len(PLANTED), 0)
        assert told(compared(chain, "rec__ledger")) == told(at_cut(chain, "rec__ledger")) == {}


def test_a_loss_in_bronze_is_read_again_by_signals(chain: SmallChain) -> None:
    server, table = chain.live.server, chain.source.tables[1]
    server.execute(
        "INSERT INTO rec.person VALUES ('ž;\\'', 18446744073709551614, 'lost in bronze', 0.5), ('ž;', 7002, 'kept', 0.5)"
    )
    chain.advance(fold=False)
    bronze = DeltaTable(str(chain.root / "bronze" / chain.source.name))
    (lost,) = [r for r in bronze.to_pyarrow_table().to_pylist() if b"lost in bronze" in (r["value"] or b"")]
    bronze.delete(f"table = 'rec__person' AND offset = {lost['offset']}")
    chain.fold()
    result = compared(chain, "rec__person")["rec__person"]
    assert [(d.kind, d.where) for d in result.differences] == [("missing", "bronze or before it")]
    server.execute("UPDATE rec.person SET height = 1.5 WHERE number = 18446744073709551614")
    before = len(records(chain.live, TABLES[1]))
    assert heal(Chain(chain.platform, chain.source), table, result) == (0, 1)
    deadline = time.monotonic() + 400
    while told(compared(chain, "rec__person")):
        assert time.monotonic() < deadline
        chain.advance()
    again = [json.loads(r.value) for r in records(chain.live, TABLES[1])[before:] if r.value]
    assert [(e["op"], e["after"]["mail"]) for e in again if e["op"] == "r"] == [("r", "lost in bronze")]


def test_what_no_calendar_has_is_told_by_the_comparison(chain: SmallChain) -> None:
    """Debezium sends zero dates as NULL; a TIME below zero or beyond a day is no time of day. The year 0000 is read back."""
    chain.live.server.execute(
        "SET SESSION sql_mode = ''",
        "INSERT INTO rec.odd VALUES (1, '0000-00-00', NULL, NULL), (2, NULL, '0000-00-00 00:00:00', NULL)",
        "INSERT INTO rec.odd VALUES (3, NULL, NULL, '24:00'), (4, NULL, NULL, '-00:00:01'), (5, NULL, NULL, '500:00:00.5')",
        f"INSERT INTO rec.kinds (id, {YEAR}) VALUES (6000, 0)",
    )
    chain.advance()
    found = told(compared(chain, "rec__odd", "rec__kinds"))
    assert found["rec__odd"][1] == [
        ("1;", "differs", [("born", "0000-00-00", None)]),
        ("2;", "differs", [("at", "0000-00-00 00:00:00", None)]),
        ("4;", "missing", []),
        ("5;", "missing", []),
    ]
    assert "rec__kinds" not in found
