"""The product's view of a real MariaDB: catalogue, counts at a place of the binlog, markers, what must hold at the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.capture.preflight.inspection import fix, preflight
from cdc_assets.capture.source_columns import source_columns
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source, UnaskedSource
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.fakes import FakeKafka, without_clusters
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, MariaDbServer, mariadb_server
from spark.errors import JobRefusedError
from spark.values.lake_types import lake_type

pytestmark = pytest.mark.service

ORDERS, ODD = TableId("shop", "orders"), TableId("shop", "o`d,d")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with mariadb_server(tmp_path_factory.mktemp("mariadb"), "--max-binlog-size=4096") as found:
        found.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (b int, a int, note varchar(9) CHARACTER SET latin1 DEFAULT 'x', n int AS (a + 1),"
            " PRIMARY KEY (a, b))",
            "CREATE TABLE shop.`o``d,d` (id int PRIMARY KEY, born date NOT NULL, at timestamp NULL, ip inet6, u uuid)",
        )
        yield found


@pytest.fixture
def source(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    database = {"kind": "mariadb", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": "shop.orders"}, {"name": 'shop."o`d,d"'}]
    return Source.model_validate({"source": "shop", "database": database, "tables": tables})


@pytest.fixture
def fit(server: MariaDbServer, source: Source) -> Iterator[Source]:
    """Without the columns that no connector takes; a table that has an address is not taken even without it."""
    server.execute("ALTER TABLE shop.`o``d,d` DROP ip")
    orders, odd = source.tables
    orders = orders.model_copy(update={"except_column_list": ("n",)})
    odd = odd.model_copy(update={"accept_inexact": ("born", "at")})
    yield source.model_copy(update={"tables": (orders, odd)})
    server.execute("ALTER TABLE shop.`o``d,d` ADD ip inet6 AFTER at")


@pytest.fixture
def database(source: Source) -> MariaDbDatabase:
    return MariaDbDatabase(source.database)  # type: ignore[arg-type]


def test_the_catalogue(database: MariaDbDatabase, source: Source) -> None:
    found = database.tables([ORDERS, ODD, TableId("shop", "absent")])
    assert set(found) == {ORDERS, ODD}
    assert found[ORDERS].primary_key == ("a", "b")
    told = [(c.name, c.type, c.nullable, c.kind, c.defaulted) for c in found[ORDERS].columns]
    assert told == [
        ("b", "int(11)", False, "", False),
        ("a", "int(11)", False, "", False),
        ("note", "varchar(9)", True, "latin1", True),
        ("n", "int(11)", True, "generated", False),
    ]
    columns = {c.name: c for c in source_columns(source, source.tables[1], found[ODD])}
    assert lake_type(columns["u"]).name == "string"
    with pytest.raises(JobRefusedError, match="column 'ip' has type inet6: Debezium cannot parse"):
        lake_type(columns["ip"])


def test_two_tables_whose_names_differ_by_case_have_their_own_columns(server: MariaDbServer, database: MariaDbDatabase) -> None:
    server.execute("CREATE TABLE shop.Twin (a int, b int, PRIMARY KEY (b, a))", "CREATE TABLE shop.twin (c int PRIMARY KEY)")
    first, second = TableId("shop", "Twin"), TableId("shop", "twin")
    try:
        for ids in ([first, second], [first], [second]):
            found = database.tables(ids)
            told = {id_: ([c.name for c in found[id_].columns], found[id_].primary_key) for id_ in ids}
            assert told == {id_: {first: (["a", "b"], ("b", "a")), second: (["c"], ("c",))}[id_] for id_ in ids}
    finally:
        server.execute("DROP TABLE shop.Twin, shop.twin")


def test_rows_are_counted_at_one_place_of_the_binlog_while_others_write(server: MariaDbServer, database: MariaDbDatabase) -> None:
    stop = threading.Event()

    def write() -> None:
        with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
            number = 0
            while not stop.is_set():
                number += 1
                cursor.execute(f"INSERT INTO shop.orders (a, b) VALUES ({number}, 1), ({number}, 2)")
                cursor.execute(f"INSERT INTO shop.`o``d,d` (id, born) VALUES ({number}, '2024-01-01')")
                connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counted = [database.counts([ORDERS, ODD])]
        deadline = time.monotonic() + 300
        # A place in the first file alone would not show that places are compared by file, then by offset.
        while len(counted) < 20 or counted[-1][0] < BinlogPosition.of("binlog.000003", 0):
            assert writer.is_alive()
            assert time.monotonic() < deadline, f"the log has not gone on from {counted[-1][0]}"
            counted.append(database.counts([ORDERS, ODD]))
    finally:
        stop.set()
        writer.join()
    assert all(counts[ORDERS] == 2 * counts[ODD] for _, counts in counted)
    places = [at for at, _ in counted]
    assert places == sorted(places)
    last, counts = counted[-1]
    # The binlog itself: row events of orders before that place hold as many rows as were counted.
    files = [row[0] for row in server.query("SHOW BINARY LOGS")]
    assert len(files) > 2
    inserted = 0
    for file in files:
        tables = {}
        for _, pos, kind, _, _, info in server.query(f"SHOW BINLOG EVENTS IN '{file}'"):
            if kind == "Table_map":
                tables[info.split("table_id: ")[1].split(" ")[0]] = info
            elif kind == "Write_rows_v1" and "shop.orders" in tables[info.split("table_id: ")[1].split(" ")[0]]:
                inserted += 2 if BinlogPosition.of(file, pos) < last else 0
    assert inserted == counts[ORDERS]


def test_a_marker_moves_the_log_and_nothing_else(server: MariaDbServer, database: MariaDbDatabase) -> None:
    first, second = database.emit_marker("position-1"), database.emit_marker("position-2")
    places = [BinlogPosition.of(*text.rsplit(":", 1)) for text in (first, second)]
    assert places[0] < places[1]
    assert server.query("SHOW DATABASES LIKE 'cdc%'") == []


def test_zero_dates_are_found_or_may_come(server: MariaDbServer, database: MariaDbDatabase) -> None:
    server.execute(
        "SET SESSION sql_mode = ''", "INSERT INTO shop.`o``d,d` (id, born) VALUES (-1, '0000-00-00'), (-2, '2024-00-10')"
    )
    (table,) = database.tables([ODD]).values()
    may = database.misread(table, ["born", "at"], snapshot=True)
    assert may["born"].startswith("may get zero dates")
    assert may["at"].startswith("may get zero dates")
    server.execute("SET GLOBAL sql_mode = 'TRADITIONAL'")
    held = database.misread(table, ["born", "at"], snapshot=True)
    assert held["born"].startswith("holds days that Debezium misreads (zero dates")
    assert sorted(held) == ["born", "ip"]
    assert sorted(database.misread(table, ["born"], snapshot=False)) == ["ip"]


def test_preflight_finds_the_year_0000_that_stops_a_snapshot(
    server: MariaDbServer, fit: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server's mode, though the column is left out; a connector that lists the table reads it no more."""
    without_clusters(monkeypatch)
    server.execute(
        "CREATE TABLE shop.years (id int PRIMARY KEY, made year, born date)", "INSERT INTO shop.years VALUES (1, 0, NULL)"
    )
    years = Table(name="shop.years", except_column_list=("made",), accept_inexact=("born",))
    source = fit.model_copy(update={"tables": (*fit.tables, years)})
    mode = server.query("SELECT @@global.sql_mode")[0][0]
    for other in ("", "TRADITIONAL", mode):
        server.execute(f"SET GLOBAL sql_mode = '{other}'")
        told = [
            (f.subject, f.message.partition(",")[0])
            for f in preflight(Chain(Platform(), source)).failures
            if f.check == "columns"
        ]
        assert told == [("shop.years", "column 'made' holds the year 0000")], other
    monkeypatch.setattr(Platform, "core_connect", lambda *_: Listing(r"shop\.years"))
    assert [f for f in preflight(Chain(Platform(), source)).findings if f.check == "columns"] == []
    server.execute("DROP TABLE shop.years")


def test_a_table_whose_rows_cannot_be_looked_at_takes_nothing_from_the_others(server: MariaDbServer, fit: Source) -> None:
    server.execute("CREATE TABLE shop.held (id int PRIMARY KEY, made year)")
    held = fit.model_copy(update={"tables": (Table(name="shop.held"), *fit.tables)})
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.held WRITE")
        report = preflight(Chain(Platform(), held))
    (found,) = [f for f in report.findings if f.check == "columns"]
    assert (found.level, found.subject, found.message[:29]) == ("warn", "shop.held", "its rows cannot be looked at:")
    assert {f.subject for f in report.findings if f.check == "table"} == {"shop.orders", "shop.o`d,d", "shop.held"}
    server.execute("DROP TABLE shop.held")


def test_preflight_of_a_server_that_allows_capture(fit: Source) -> None:
    report = preflight(Chain(Platform(), fit))
    assert report.failures == ()
    assert {f.subject for f in report.findings if f.check == "table"} == {"shop.orders", "shop.o`d,d"}


def test_preflight_names_the_columns_that_are_refused(server: MariaDbServer, source: Source) -> None:
    """As `cdc apply` would refuse them, and those that silver cannot have."""
    taken = Table(name="shop.taken", except_column_list=("_cdc_position",))
    server.execute("CREATE TABLE shop.taken (id int PRIMARY KEY, _CDC_op int, _valid_from date, _cdc_position int, f float)")
    told = preflight(Chain(Platform(), source.model_copy(update={"tables": (*source.tables, taken)}))).failures
    server.execute("DROP TABLE shop.taken")
    found = {f.subject: [g.message for g in told if g.subject == f.subject] for f in told if f.check == "columns"}
    assert set(found) == {"shop.taken", "shop.orders", "shop.o`d,d"}
    assert ["it is a generated column" in message for message in found["shop.orders"]] == [True]
    assert found["shop.taken"][0].startswith("silver has columns of its own called _CDC_op, _valid_from: ")
    assert any("'f' has type float" in message for message in found["shop.taken"])
    assert any("'ip' is of a type whose definition Debezium cannot parse" in message for message in found["shop.o`d,d"])


def test_rows_that_a_foreign_key_takes_along_are_in_no_binlog(server: MariaDbServer, fit: Source) -> None:
    """The connector is not made then: silver would keep them for ever."""
    server.execute(
        "CREATE TABLE shop.parent (id int PRIMARY KEY)",
        "CREATE TABLE shop.line (id int PRIMARY KEY)",
        "ALTER TABLE shop.line ADD CONSTRAINT own FOREIGN KEY (id) REFERENCES shop.parent (id) ON DELETE CASCADE",
        *("INSERT INTO shop.parent VALUES (1)", "INSERT INTO shop.line VALUES (1)", "FLUSH BINARY LOGS"),
        "DELETE FROM shop.parent",
    )
    assert server.query("SELECT * FROM shop.line") == []
    file = server.query("SHOW BINARY LOGS")[-1][0]
    events = [(kind, info.partition(" flags")[0]) for _, _, kind, _, _, info in server.query(f"SHOW BINLOG EVENTS IN '{file}'")]
    (deleted,) = [info for kind, info in events if kind.startswith("Delete_rows")]
    assert ("Table_map", f"{deleted} (shop.parent)") in events
    lines = fit.model_copy(update={"tables": (Table(name="shop.line"), *fit.tables)})
    (finding,) = [f for f in preflight(Chain(Platform(), lines)).failures if f.check != "reachable"]
    assert (finding.check, finding.subject) == ("cascades", "shop.line")
    assert "foreign key own (ON DELETE CASCADE) changes its rows without a word in the binlog" in finding.message
    server.execute(str(finding.mend).partition(";")[0])
    assert preflight(Chain(Platform(), lines)).failures == ()
    server.execute("DROP TABLE shop.line, shop.parent")


class NothingRead:
    """Connect, without the connector."""

    url = "fake"

    def config(self, _: str) -> dict[str, str] | None:
        return None

    def within(self, _: float) -> NothingRead:
        return self

    def offsets(self, _: str) -> list[dict[str, object]]:
        return []


class Listing(NothingRead):
    """Connect, with a connector whose list is this."""

    def __init__(self, listed: str) -> None:
        self.listed = listed

    def config(self, _: str) -> dict[str, str] | None:
        return {"table.include.list": self.listed}


def test_preflight_names_the_statement_that_mends_a_server(
    server: MariaDbServer, fit: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cluster in ("core_kafka", "lake_kafka"):
        monkeypatch.setattr(Platform, cluster, lambda *_: FakeKafka())
    monkeypatch.setattr(Platform, "core_connect", lambda *_: NothingRead())
    monkeypatch.setenv("CDC_LAKE_CONNECT", "http://127.0.0.1:9")
    for connect in ("core", "lake"):
        monkeypatch.setenv(f"CDC_{connect.upper()}_CONNECT_TOPICS", "none")
    wrong = {"binlog_format": "'MIXED'", "binlog_row_image": "'MINIMAL'", "expire_logs_days": "1"}
    server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in wrong.items()))
    server.execute("REVOKE REPLICATION SLAVE ON *.* FROM 'cdc'@'%'", "ALTER TABLE shop.orders DROP PRIMARY KEY")
    found = {f.check: f for f in preflight(Chain(Platform(), fit)).findings if f.level != "ok"}
    assert set(found) == {"binlog_format", "binlog_row_image", "retention", "privileges", "key"}
    mends = [found[check].mend or "" for check in ("binlog_format", "binlog_row_image", "retention", "privileges")]
    assert mends[-1] == "GRANT REPLICATION SLAVE ON *.* TO 'cdc'@'%'"
    server.execute(*mends, "ALTER TABLE shop.orders ADD PRIMARY KEY (a, b)")
    report = preflight(Chain(Platform(), fit))
    assert (report.failures, report.warnings) == ((), ())


def test_a_source_of_kind_mysql_is_asked_by_its_own_driver(server: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    without_clusters(monkeypatch)
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)
    database = {"kind": "mysql", "host": "127.0.0.1", "port": server.port, "user": "cdc", "password": {"secret": "shop"}}
    columns = {"id": "bigint not null"}
    tables = [{"name": name, "keys": ["id"], "columns": columns} for name in ("shop.orders", "shop.none", 'shop."o`d,d"')]
    source = UnaskedSource.model_validate({"source": "shop", "database": database, "tables": tables})
    server.execute("SET GLOBAL expire_logs_days = 1", "SET GLOBAL binlog_row_image = 'MINIMAL'")
    report = preflight(Chain(Platform(), source))
    found = {f"{f.level} {f.check} {f.subject}": f for f in report.findings}
    assert {*found} >= {"fail binlog_row_image server", "warn retention server", "fail table shop.none", "ok table shop.orders"}
    assert "ok table shop.o`d,d" in found
    refused = dict(fix(Chain(Platform(), source), report))[found["warn retention server"]]
    assert "Access denied; you need (at least one of) the" in refused
    server.execute("SET GLOBAL binlog_row_image = 'FULL'", "GRANT BINLOG ADMIN ON *.* TO cdc")
    assert [said for _, said in fix(Chain(Platform(), source), report)] == ["done"]
    assert {f.subject for f in preflight(Chain(Platform(), source)).failures} == {"shop.none"}
    server.execute("REVOKE BINLOG ADMIN ON *.* FROM cdc")


def test_rows_of_a_prepared_transaction_are_in_the_binlog_before_it_ends(server: MariaDbServer, source: Source) -> None:
    xa = ("XA START 'x'", "INSERT INTO shop.orders (a, b) VALUES (-7, -7)", "XA END 'x'", "XA PREPARE 'x'")
    server.execute("FLUSH BINARY LOGS", *xa)
    file = server.query("SHOW BINARY LOGS")[-1][0]
    assert [row for row in server.query(f"SHOW BINLOG EVENTS IN '{file}'") if row[2].startswith("Write_rows")] != []
    server.execute("XA ROLLBACK 'x'")
    assert server.query("SELECT * FROM shop.orders WHERE a = -7") == []
    (warned,) = [f for f in preflight(Chain(Platform(), source)).findings if f.check == "xa"]
    assert warned.level == "warn"
    assert "(1 XA PREPARE since the server started)" in warned.message


def test_without_a_binlog_there_is_nothing_to_count_at(source: Source, tmp_path: Path) -> None:
    with mariadb_server(tmp_path, "--skip-log-bin") as other:
        address = source.database.model_copy(update={"port": other.port})
        with pytest.raises(DatabaseError, match="writes no binlog; start it with --log-bin"):
            MariaDbDatabase(address).counts([])  # type: ignore[arg-type]
    with pytest.raises(DatabaseError, match=rf"MariaDB at 127.0.0.1:{other.port}: .*connect"):
        MariaDbDatabase(address).counts([])  # type: ignore[arg-type]
