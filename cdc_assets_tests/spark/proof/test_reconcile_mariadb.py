"""Silver against a live MariaDB at one place of its binlog: equal in every type and under load, and every damage found."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pymysql
import pytest
from deltalake import DeltaTable

from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.healing import heal
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.live.writers import at_work
from cdc_assets_tests.support.oracles.damage import PLANTED, plant
from cdc_assets_tests.support.values.mariadb_values import EXACT, LENIENT
from spark.proof.key_order import KeyRange, TwoRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZEROS = "rec.zeros"
DDL = (
    "CREATE DATABASE rec",
    "CREATE TABLE rec.ledger (id int PRIMARY KEY, amount decimal(12,2), note varchar(60), at timestamp(3) NULL)",
    "INSERT INTO rec.ledger SELECT seq, seq / 7, CONCAT('note ', seq), '2026-01-01 00:00:00.5' + INTERVAL seq SECOND "
    "FROM rec.seq_1_to_3000",
    "CREATE TABLE rec.person (country varchar(9) CHARACTER SET latin2, number bigint unsigned, mail text, height double, "
    "PRIMARY KEY (country, number))",
    "INSERT INTO rec.person SELECT CONCAT('ž', seq % 7), seq, IF(seq % 3, CONCAT('p', seq, '@ü'), NULL), seq / 3 "
    "FROM rec.seq_1_to_500",
    "INSERT INTO rec.person VALUES ('', 18446744073709551615, '', -0.0), ('a;', 1, ';', 5e-324)",
    "INSERT INTO rec.person VALUES ('%', 2, '%s', 1.7976931348623157e308)",
    "CREATE TABLE rec.chosen (id int PRIMARY KEY, live tinyint(1), "
    "region varchar(9) CHARACTER SET latin2 COLLATE latin2_general_ci)",
    "INSERT INTO rec.chosen (id, region, live) SELECT seq, ELT(1 + seq % 6, 'EU', 'eu', 'ž%s', 'Ž%s', 'EU ', NULL), seq % 2 "
    "FROM rec.seq_1_to_120",
    f"CREATE TABLE {ZEROS} (id int PRIMARY KEY, d date, dn date NOT NULL, t datetime(3), tn datetime NOT NULL, "
    "s timestamp NULL, sn timestamp NOT NULL DEFAULT '2020-01-01')",
)
DAY, MOMENT, EPOCH = "0000-00-00", "0000-00-00 00:00:00", "1970-01-01 00:00:00"
TOLD = {
    **{"1;": {"d": DAY}, "2;": {"d": DAY}, "3;": {"dn": DAY}, "4;": {"t": MOMENT}, "5;": {"tn": MOMENT}, "6;": {"s": EPOCH}},
    **{"7;": {"sn": EPOCH}, "9;": {"dn": DAY, "tn": MOMENT}},
}
"""What the comparison says of the source, by key and column. A zero is the number 0 among MariaDB's moments."""
# A server as docs/reference/mariadb.md asks for. IGNORE makes a warning of each refusal, and a zero of what is refused.
IGNORED = (
    "SET SESSION sql_mode = 'TRADITIONAL'",
    f"INSERT INTO {ZEROS} SELECT seq, '2020-02-02', '2020-02-02', '2020-02-02', '2020-02-02', '2020-02-02', '2020-02-02' "
    "FROM rec.seq_1_to_8",
    f"UPDATE IGNORE {ZEROS} SET d = '0000-00-00' WHERE id = 1",
    f"UPDATE IGNORE {ZEROS} SET d = '2020-00-00' WHERE id = 2",
    f"UPDATE IGNORE {ZEROS} SET dn = '0000-00-00' WHERE id = 3",
    f"UPDATE IGNORE {ZEROS} SET t = '0000-00-00' WHERE id = 4",
    f"UPDATE IGNORE {ZEROS} SET tn = '2021-02-30' WHERE id = 5",
    f"UPDATE IGNORE {ZEROS} SET s = '0000-00-00' WHERE id = 6",
    f"UPDATE IGNORE {ZEROS} SET sn = '0000-00-00' WHERE id = 7",
    f"INSERT IGNORE INTO {ZEROS} (id) VALUES (9)",
)
OTHERWISE = ("ALTER TABLE rec.other FORCE", "DROP TABLE rec.other")
CHOSEN = "FROM rec.chosen WHERE (BINARY CONVERT(region USING utf8mb4) IN ('EU', 'ž%s') OR region IS NULL) AND live = 1"
WHERE = [{"column": "region", "one_of": ["EU", "ž%s", None]}, {"column": "live", "none_of": [0, None]}]
TABLES = ["rec.ledger", "rec.person", "rec.kinds", ZEROS, {"name": "rec.chosen", "where": WHERE}]


@pytest.fixture(scope="module")
def chain(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SmallChain]:
    own = mariadb.renamed("mariarec")
    columns = "".join(f", c{i} {kind} NULL" for i, kind in enumerate(EXACT))
    own.server.execute(*DDL, f"CREATE TABLE rec.kinds (id int PRIMARY KEY{columns})")
    values = [(f"c{i}", sql) for i, sqls in enumerate(EXACT.values()) for sql in sqls]
    inserts = [f"INSERT INTO rec.kinds (id, {c}) VALUES ({n}, {sql})" for n, (c, sql) in enumerate(values)]
    own.server.execute(LENIENT, *inserts)
    with small_chain(own, remote, session, tmp_path_factory.mktemp("mariarec"), TABLES) as made:
        yield made


# Both ranges of a key without a common order are everything.
PERSON = {"rec__person": TwoRanges(KeyRange(("country", "number")), KeyRange(("country", "number")))}


def not_equal(chain: SmallChain, *tables: str) -> dict[str, object]:
    results = chain.compare(tables, slices=PERSON)
    return {name: (r.sentence(), r.differences[:3]) for name, r in results.items() if not r.equal}


def test_equal_in_every_type(chain: SmallChain) -> None:
    chain.live.server.execute("INSERT INTO rec.person VALUES ('streamed', 1, 'ü', 0.1)")
    results = chain.compare()
    assert {name: (r.verdict, r.reason, r.differences[:2]) for name, r in results.items()} == dict.fromkeys(
        ("rec__ledger", "rec__person", "rec__kinds", "rec__zeros", "rec__chosen"), ("equal", "", ())
    )
    # Of 'EU' and NULL the live ones have odd numbers: ids that leave 5 when divided by 6.
    assert [r.source_rows for r in results.values()] == [3000, 504, sum(map(len, EXACT.values())), 0, 20]
    assert not any(r.not_compared for r in results.values())


@pytest.mark.all
def test_equal_under_live_writes(chain: SmallChain) -> None:
    """Transactions open across the cut, rolled back and split by a rotation of the binlog."""
    server = chain.live.server

    def write(seed: int, stop: threading.Event) -> None:
        with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
            # A scan meets the row of the transaction that is held open: no writer waits for that for 50 s.
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            number = seed * 100_000
            while not stop.is_set():
                number += 1
                try:
                    cursor.execute(f"UPDATE rec.ledger SET amount = amount + 1 WHERE id % 997 = {number % 997}")
                    cursor.execute(f"DELETE FROM rec.ledger WHERE id = {number % 3000}")
                    cursor.execute(f"INSERT INTO rec.ledger VALUES ({number}, 1.5, 'x', NOW(3))")
                    cursor.execute(f"UPDATE rec.person SET number = {number} WHERE number = {number - 1}")
                    if number % 20 == 0:
                        cursor.execute("FLUSH BINARY LOGS")
                    connection.rollback() if number % 5 == 0 else connection.commit()
                except pymysql.err.MySQLError:
                    connection.rollback()
                time.sleep(0.05)

    with server.connect(autocommit=False) as held, held.cursor() as cursor:
        cursor.execute("INSERT INTO rec.ledger VALUES (9001, 1, 'open across the cut', NULL)")
        with at_work(write):
            chain.copier.during = held.commit  # type: ignore[union-attr]
            found = not_equal(chain, "rec__ledger", "rec__person")
    assert found == {}
    chain.advance()
    assert not_equal(chain, "rec__ledger", "rec__person") == {}


def test_every_damage_is_found(chain: SmallChain) -> None:
    chain.live.server.execute(
        "DELETE FROM rec.ledger WHERE id BETWEEN 100 AND 108",
        "INSERT INTO rec.ledger SELECT seq, seq, CONCAT('note ', seq), NOW(3) FROM rec.seq_100_to_108",
        "UPDATE rec.ledger SET amount = NULL WHERE id = 104",
    )
    chain.advance()
    plant(chain.silver("rec__ledger"))
    result = chain.compare(["rec__ledger"])["rec__ledger"]
    assert {d.key: (d.kind, d.where) for d in result.differences} == {key: (kind, "silver") for key, kind in PLANTED.items()}
    by_key = {d.key: d for d in result.differences}
    assert by_key["103;"].columns == ("amount",)
    assert (by_key["104;"].source or {})["amount"] is None
    assert heal(Chain(chain.platform, chain.source), chain.source.table("rec__ledger"), result) == (len(PLANTED), 0)
    assert not_equal(chain, "rec__ledger") == {}


@pytest.mark.all
def test_chosen_rows(chain: SmallChain) -> None:
    """Texts are told apart by their code points, whatever the column's collation takes for equal."""
    server = chain.live.server
    server.execute(
        "UPDATE rec.chosen SET live = 1 - live WHERE id % 5 = 0",
        "UPDATE rec.chosen SET region = 'eu' WHERE region IS NULL AND id < 30",
        "UPDATE rec.chosen SET id = id + 1000 WHERE id % 7 = 0",
        "DELETE FROM rec.chosen WHERE id % 11 = 0",
    )
    both = {"rec__chosen": TwoRanges(KeyRange(("id",)), KeyRange(("id",)))}
    for slices in ({}, both):
        result = chain.compare(["rec__chosen"], slices=slices)["rec__chosen"]
        assert (result.sentence(), result.equal) == (result.sentence(), True)
    chain.advance()
    path = chain.silver("rec__chosen")
    held = DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(held) == sorted(row[0] for row in server.query(f"SELECT id {CHOSEN}"))
    (lost,) = server.query(f"SELECT MIN(id) {CHOSEN}")
    (other,) = server.query("SELECT MIN(id) FROM rec.chosen WHERE BINARY region = 'eu'")
    DeltaTable(path).update(predicate=f"id = {lost[0]}", updates={"id": str(other[0])})
    for slices in ({}, both):
        result = chain.compare(["rec__chosen"], slices=slices)["rec__chosen"]
        assert {d.key: d.kind for d in result.differences} == {f"{lost[0]};": "missing", f"{other[0]};": "phantom"}
    assert heal(Chain(chain.platform, chain.source), chain.source.table("rec__chosen"), result) == (2, 0)
    assert not_equal(chain, "rec__chosen") == {}


@pytest.mark.all
def test_a_scan_holds_no_lock(chain: SmallChain) -> None:
    """An ALTER TABLE would otherwise wait for the snapshot's end, and all writers behind it; rows too long are refused."""
    from cdc_assets.chain.fold_specs import silver_spec
    from spark.proof.row_text import RowText

    table, server = chain.source.table("rec__person"), chain.live.server
    database = chain.platform.database(chain.source)
    text = RowText(silver_spec(str(chain.root), chain.source, table, database.tables([table.id])[table.id]))

    def alter_during_a_cut(seconds: int) -> None:
        with open_cut(database, statement_timeout=60) as cut:
            rows = sum(count for count, _ in cut.digest(table.id, text, (0, 1)).values())
            assert sum(n for n, _ in cut.digest(table.id, text, (1, 3)).values()) < rows
            server.execute(f"SET lock_wait_timeout = {seconds}", "ALTER TABLE rec.person COMMENT 'x'")

    with pytest.raises(DatabaseError, match="Lock wait timeout"):
        alter_during_a_cut(1)
    server.execute("GRANT BINLOG ADMIN ON *.* TO cdc")
    try:
        alter_during_a_cut(60)
    finally:
        server.execute("REVOKE BINLOG ADMIN ON *.* FROM cdc")
    wide = "CREATE TABLE rec.wide (country varchar(9), number bigint unsigned, mail longtext, height double)"
    server.execute(wide, "INSERT INTO rec.wide VALUES ('x', 1, REPEAT('y', @@max_allowed_packet - 5), 1)")
    with open_cut(database, statement_timeout=60) as cut, pytest.raises(DatabaseError, match="longer than max_allowed_packet"):
        cut.digest(TableId("rec", "wide"), text, (0, 1))


@pytest.mark.all
@pytest.mark.parametrize(
    "change",
    ["TRUNCATE rec.other", *(pytest.param(change, marks=pytest.mark.all) for change in OTHERWISE)],
)
def test_a_table_that_is_another_since_the_snapshot_is_not_read(chain: SmallChain, change: str) -> None:
    """The server says so itself: the snapshot is older than the table."""
    from spark.proof.row_text import RowText
    from spark.specs import Column, SilverSpec

    server, database = chain.live.server, chain.platform.database(chain.source)
    text = RowText(SilverSpec("s", "other", "-", "-", (Column("id", "int(11)", False, dialect="mariadb"),), ("id",)))
    server.execute("CREATE TABLE rec.other (id int PRIMARY KEY)", "INSERT INTO rec.other VALUES (1), (2)")
    with open_cut(database, statement_timeout=60) as cut:
        server.execute(change)
        with pytest.raises(DatabaseError, match="Table definition has changed|doesn't exist"):
            cut.digest(TableId("rec", "other"), text, (0, 1))
    server.execute("DROP TABLE IF EXISTS rec.other")


def rows_read(bronze: DeltaTable) -> int:
    bronze.update_incremental()
    return sum(row["op"] == "r" for row in bronze.to_pyarrow_table(columns=["op"]).to_pylist())


@pytest.mark.all
def test_a_loss_in_bronze_is_read_again_through_the_log(chain: SmallChain) -> None:
    """The connector's role may not make its signal table: the statements are named, and do."""
    server, table = chain.live.server, chain.source.table("rec__person")
    # By doubled quotes alone the lost key would end the condition, and ask for every row.
    hostile = "CONCAT(CHAR(92), ''') OR 1#')"
    server.execute(f"INSERT INTO rec.person VALUES ({hostile}, 7001, 'lost in bronze', 0.5), ('ž;', 7002, 'kept', 0.5)")
    chain.advance(fold=False)
    bronze = DeltaTable(str(chain.root / "bronze" / chain.source.name))
    (lost,) = [r for r in bronze.to_pyarrow_table().to_pylist() if b"lost in bronze" in (r["value"] or b"")]
    bronze.delete(f"table = 'rec__person' AND offset = {lost['offset']}")
    chain.fold()
    result = chain.compare(["rec__person"])["rec__person"]
    assert [(d.kind, d.where) for d in result.differences] == [("missing", "bronze or before it")]
    with pytest.raises(DatabaseError, match="CREATE TABLE IF NOT EXISTS `cdc_assets`") as refused:
        heal(Chain(chain.platform, chain.source), table, result)
    server.execute(*str(refused.value).split("while the connector runs: ")[1].split("; "))
    server.execute("UPDATE rec.person SET height = 1.5 WHERE number = 7001")
    read = rows_read(bronze)
    assert heal(Chain(chain.platform, chain.source), table, result) == (0, 1)
    deadline = time.monotonic() + 400
    while rows_read(bronze) == read or not_equal(chain, "rec__person"):
        assert time.monotonic() < deadline
        chain.advance()
    assert rows_read(bronze) == read + 1


@pytest.mark.all
def test_zero_dates_that_the_server_lets_in_are_told(chain: SmallChain) -> None:
    """Debezium sends NULL, or the begin of 1970. Each row is named with its column, and to read it again stops nothing."""
    chain.live.server.execute(*IGNORED)
    chain.advance(tables=[ZEROS])
    for again in (False, True):
        result = chain.compare([ZEROS])["rec__zeros"]
        assert {d.key: {c: (d.source or {})[c] for c in d.columns} for d in result.differences} == TOLD, result.differences
        if not again:
            assert heal(Chain(chain.platform, chain.source), chain.source.table(ZEROS), result) == (0, len(TOLD))
            chain.advance(tables=[ZEROS])
    chain.live.server.execute(f"DELETE FROM {ZEROS}")
