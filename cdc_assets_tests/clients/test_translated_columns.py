"""Columns of catalogues that were recorded, or filled by hand, with types as PostgreSQL would write them; no server is asked.

SQL Server's and Oracle's views are SQLite's, behind what a driver has. MongoDB's documents are the classes that pymongo makes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture import source_columns
from cdc_assets.capture.preflight.capturable_tables import inexact_columns, uncapturable_findings
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.clients.databases import mongodb, mysql, oracle, sqlserver
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.databases.oracle import OracleConnection
from cdc_assets.clients.databases.sqlserver import SqlServerConnection
from cdc_assets.clients.kind_clients import CLIENTS, open_columns
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.catalogues import ORACLE, SQLSERVER, Catalogue
from cdc_assets_tests.support.row_servers import SERVERS
from spark.specs import Column
from spark.values.lake_types import lake_type
from spark.values.other_databases import LOSES, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "databases.md"
ORDERS = TableId("dbo", "orders")


def source_of(kind: str, **database: Any) -> UnaskedSource:
    declared = {"kind": kind, "user": "cdc", "password": {"secret": "erp"}, **SERVERS[kind], **database}
    return UnaskedSource.model_validate({"source": "erp", "database": declared, "tables": [{"name": "dbo.orders"}]})


def columns_of(table: CatalogueTable) -> dict[str, tuple[str, str, bool]]:
    return {column.name: (column.type, column.kind, column.nullable) for column in table.columns}


@pytest.fixture
def sqlserver_catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    catalogue = Catalogue(SQLSERVER)
    monkeypatch.setattr(SqlServerConnection, "cursor", lambda _: catalogue.cursor())
    return catalogue


@pytest.fixture
def oracle_catalogue(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    catalogue = Catalogue(ORACLE)
    monkeypatch.setattr(OracleConnection, "cursor", lambda _: catalogue.cursor())
    return catalogue


def test_sql_server(sqlserver_catalogue: Catalogue) -> None:
    sqlserver_catalogue.database.executescript(
        "INSERT INTO sys.columns VALUES (10, 3, 'at', 42, 42, 27, 7, 1, 0, 0, 5), (10, 4, 'twice', 108, 108, 13, 2, 1, 1, 0, 0),"
        "(10, 5, 'any', 98, 98, 0, 0, 1, 0, 0, 0), (10, 6, 'where', 240, 129, 0, 0, 1, 0, 0, 0),"
        "(10, 7, 'alias', 231, 257, 0, 0, 1, 0, 0, 0), (10, 8, 'set', 231, 231, 0, 0, 1, 0, 1, 0)"
    )
    source = source_of("sqlserver")
    found = open_columns(source.database).tables([ORDERS, TableId("dbo", "marker"), TableId("dbo", "none")])
    assert [*found] == [TableId("dbo", "marker"), ORDERS]
    assert (found[ORDERS].primary_key, found[TableId("dbo", "marker")].primary_key) == (("id",), ())
    assert columns_of(found[ORDERS]) == {
        "id": ("text", "", False),
        "total": ("numeric(12,2)", "", True),
        "at": ("timestamp(6) without time zone", "ticks", True),
        "twice": ("numeric(13,2)", "generated", True),
        "any": ("sql_variant", "unread", True),
        "where": ("geometry", "unread", True),
        "alias": ("text", "", True),
        "set": ("text", "generated", True),
    }
    assert [column.name for column in found[ORDERS].columns if column.defaulted] == ["at"]
    told = [*inexact_columns(open_columns(source.database), source, source.tables[0], found[ORDERS], snapshot=True)]
    assert [re.findall("'(.+?)'", sentence)[0] for sentence in told] == ["at", "twice", "any", "where", "set"]
    assert "loses digits of a second beyond the sixth" in told[0]
    assert "or accept that (accept_inexact)" in told[0]
    accepting = source.tables[0].model_copy(
        update={"accept_inexact": ("at",), "except_column_list": ("twice", "any", "where", "set")}
    )
    assert not [*inexact_columns(open_columns(source.database), source, accepting, found[ORDERS], snapshot=True)]


def test_oracle(oracle_catalogue: Catalogue) -> None:
    oracle_catalogue.database.executescript(
        "INSERT INTO all_tab_cols VALUES ('dbo', 'orders', 'v', 3, 'NUMBER', 5, 0, 'Y', 'YES', 'NO', 9),"
        "('dbo', 'orders', 'h', 4, 'RAW', NULL, NULL, 'Y', 'NO', 'YES', NULL),"
        "('dbo', 'orders', 'l', 5, 'LONG', NULL, NULL, 'Y', 'NO', 'NO', NULL),"
        "('dbo', 'orders', 'c', 6, 'CLOB', NULL, NULL, 'Y', 'NO', 'NO', NULL)"
    )
    source = source_of("oracle")
    catalogue = open_columns(source.database)
    found = catalogue.tables([ORDERS, TableId("dbo", "none")])
    assert columns_of(found[ORDERS]) == {
        "id": ("text", "", False),
        "total": ("numeric(12,2)", "", True),
        "v": ("numeric(5,0)", "generated", True),
        "l": ("LONG", "unread", True),
        "c": ("text", "lobs", True),
    }
    assert found[ORDERS].primary_key == ("id",)
    # Leaving it out does not help: the event is skipped as a whole.
    without = source.tables[0].model_copy(update={"except_column_list": ("v", "l", "c")})
    (told,) = inexact_columns(catalogue, source, without, found[ORDERS], snapshot=True)
    assert told.startswith(
        "column 'l' is of a type that Debezium does not read, and its documentation says that it skips each event"
    )
    big = source_of("oracle", lobs=True, mining="online_catalog")
    assert columns_of(open_columns(big.database).tables([ORDERS])[ORDERS])["c"] == ("text", "", True)


class ObjectId(str):
    pass


class Decimal128(str):
    pass


class Documents:
    """A collection as pymongo has it."""

    def __init__(self, documents: Sequence[dict[str, Any]]) -> None:
        self.documents = list(documents)

    def find(self, _: dict[str, Any], **__: Any) -> Documents:
        return self

    def sort(self, key: str, direction: int) -> Documents:
        return Documents(sorted(self.documents, key=lambda each: str(each[key]), reverse=direction < 0))

    def limit(self, count: int) -> list[dict[str, Any]]:
        return self.documents[:count]


def serve(monkeypatch: pytest.MonkeyPatch, documents: Sequence[dict[str, Any]]) -> None:
    class Database:
        def list_collection_names(self, *, filter: dict[str, str]) -> list[str]:  # noqa: A002 - pymongo's name
            return [name for name in ("orders",) if name == filter["name"]]

        def __getitem__(self, _: str) -> Documents:
            return Documents(documents)

    @contextmanager
    def client(_: object) -> Iterator[dict[str, Database]]:
        yield {"dbo": Database()}

    monkeypatch.setattr(mongodb, "open_client", client)


def test_a_sample_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = dt.datetime(2024, 2, 29, 12)
    serve(
        monkeypatch,
        [
            {"_id": ObjectId("a"), "n": 5, "x": 1.5, "s": "t", "ok": True, "at": moment, "price": Decimal128("1.10"), "tags": []},
            {"_id": ObjectId("b"), "n": None, "s": 7, "never": None, "inside": {"a": 1}, "raw": b"\0"},
        ],
    )
    found = open_columns(source_of("mongodb").database).tables([ORDERS, TableId("dbo", "none")])
    assert [*found] == [ORDERS]
    assert found[ORDERS].primary_key == ("_id",)
    assert {name: type_ for name, (type_, _, _) in columns_of(found[ORDERS]).items()} == {
        "_id": "text",
        "n": "bigint",
        "x": "double precision",
        "s": "jsonb",
        "ok": "boolean",
        "at": "timestamp(3) with time zone",
        "price": "numeric",
        "tags": "jsonb",
        "inside": "jsonb",
        "raw": "jsonb",
    }
    assert [name for name, (_, _, nullable) in columns_of(found[ORDERS]).items() if not nullable] == ["_id"]


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ((), ("text", False)),
        ((1, 2), ("bigint", False)),
        (("a", ObjectId("b")), ("text", False)),
        ((1, "1"), ("jsonb", False)),
        ((None, 1), ("bigint", True)),
    ],
)
def test_ids_of_a_collection(monkeypatch: pytest.MonkeyPatch, ids: Sequence[Any], told: tuple[str, bool]) -> None:
    serve(monkeypatch, [{"_id": id_} for id_ in ids])
    (column,) = open_columns(source_of("mongodb").database).tables([ORDERS])[ORDERS].columns
    assert (column.type, column.nullable) == told


def test_both_ends_of_a_collection_are_looked_at_and_nothing_between(monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[dict[str, Any]] = [{"_id": f"{n:05}"} for n in range(1200)]
    documents[0]["first"] = documents[600]["middle"] = documents[-1]["last"] = 1
    serve(monkeypatch, documents)
    found = open_columns(source_of("mongodb").database).tables([ORDERS])[ORDERS]
    assert [column.name for column in found.columns] == ["_id", "first", "last"]


def test_another_sample_changes_nothing_that_silver_has(monkeypatch: pytest.MonkeyPatch) -> None:
    known = CatalogueTable(ORDERS, (CatalogueColumn("_id", "text", False), CatalogueColumn("n", "bigint", True)), ("_id",))
    monkeypatch.setattr(source_columns, "last_known", lambda *_: known)
    serve(monkeypatch, [{"_id": "a", "n": "a text by now", "new": True}])
    source = source_of("mongodb")
    found = catalogue_of(Chain(Platform(lake_root="/lake"), source), source.tables)[ORDERS]
    assert {c.name: c.type for c in found.columns} == {"_id": "text", "n": "bigint", "new": "boolean"}
    serve(monkeypatch, [{"_id": "a"}])
    found = catalogue_of(Chain(Platform(lake_root="/lake"), source), source.tables)[ORDERS]
    assert {c.name: c.type for c in found.columns} == {"_id": "text", "n": "bigint"}


def test_what_is_declared_stands_and_nobody_is_asked(sqlserver_catalogue: Catalogue) -> None:
    source = source_of("sqlserver")
    declared = source.tables[0].model_validate({"name": "dbo.lines", "keys": ["id"], "columns": {"id": "bigint not null"}})
    both = source.model_copy(update={"tables": (*source.tables, declared)})
    platform = Platform(lake_root="/lake")
    assert columns_of(catalogue_of(Chain(platform, both), [declared])[declared.id]) == {"id": ("bigint", "", False)}
    assert sqlserver_catalogue.asked == []
    found = catalogue_of(Chain(platform, both), both.tables)
    assert {id_: table.primary_key for id_, table in found.items()} == {ORDERS: ("id",), declared.id: ("id",)}
    assert len(sqlserver_catalogue.asked) == 1


def test_a_table_that_is_not_there_is_told_before_anything_is_applied(
    sqlserver_catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = SimpleNamespace(config=lambda _: None)
    connect.within = lambda _: connect
    monkeypatch.setattr(Platform, "core_connect", lambda *_: connect)
    source = source_of("sqlserver")
    assert [*uncapturable_findings(Platform(), source)] == []
    both = source.model_copy(update={"tables": (*source.tables, Table(name="dbo.gone"))})
    (found,) = uncapturable_findings(Platform(), both)
    assert (found.check, found.level, found.subject) == ("table", "fail", "dbo.gone")


def rows_of_the_page() -> list[tuple[str, str, str, str]]:
    """(kind, the database's type, the registry's type, what is said of it)."""
    rows, kind = [], ""
    for line in PAGE.read_text().splitlines():
        if found := re.fullmatch(r"\| (SQL Server|Oracle) \| in the registry \|.*", line):
            kind = found[1]
        elif kind and line.startswith("| "):
            cells = line.strip("|").split("|")
            for type_ in re.findall("`([^`]+)`", cells[0]):
                rows.append((kind, type_, cells[1].strip("` "), cells[2]))
        elif kind and not line.startswith("|"):
            kind = ""
    return rows


def test_the_page_says_what_is_done() -> None:
    said = rows_of_the_page()
    assert {kind for kind, *_ in said} == {"SQL Server", "Oracle"}
    for kind, type_, told, why in said:
        sizes = [int(each) for each in re.findall(r"\d+", type_)]
        if kind == "Oracle":
            name = type_ if type_.startswith(("TIMESTAMP", "INTERVAL")) else type_.partition("(")[0]
            found = oracle.translate(name, sizes[0] if sizes else None, sizes[1] if len(sizes) > 1 else None, lobs=True)
            behind = "`lobs`" in why
            assert behind == (oracle.translate(name, None, None, lobs=False)[1] == "lobs"), type_
        else:
            precision, scale = (sizes[0], sizes[1]) if len(sizes) > 1 else (0, sizes[0] if sizes else 0)
            found = sqlserver.translate(type_.partition("(")[0], precision, scale)
        assert found == (told if told != "refused" else type_, found[1]), type_
        assert (why.strip().startswith("accept"), told == "refused") == (found[1] in LOSES, found[1] in REFUSED), type_
        if told != "refused":
            assert lake_type(Column("c", found[0], kind=found[1], accepted=True)).name


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("tinyint(1)", "smallint"),
        ("smallint unsigned", "integer"),
        ("int(10) unsigned zerofill", "bigint"),
        ("bigint unsigned", "bigint unsigned"),
        ("decimal(12,2) unsigned", "numeric(12,2)"),
        ("double unsigned", "double precision"),
        ("datetime(6)", "timestamp(6) without time zone"),
        ("datetime", "timestamp(0) without time zone"),
        ("timestamp(3)", "timestamp(3) with time zone"),
        ("time(2)", "time(2) without time zone"),
        ("bit(1)", "boolean"),
        ("bit(12)", "bit(12)"),
        ("enum('a','it''s (b)')", "text"),
        ("varbinary(20)", "bytea"),
        ("year", "year"),
        ("json", "json"),
    ],
)
def test_mysql(written: str, told: str) -> None:
    assert mysql.translate_column_type(written) == (told, "")
    assert lake_type(Column("c", told)).name


def test_a_year_of_mysql_is_read_as_its_client_counts() -> None:
    assert lake_type(Column("y", mysql.translate_column_type("year")[0])).form == "year"


def test_mysql_says_what_is_lost_and_what_is_generated() -> None:
    assert mysql.translate_column_type("float") == ("real", "six_digits")
    assert mysql.translate_column_type("point") == ("point", "unread")
    table = CatalogueTable(
        ORDERS, (CatalogueColumn("a", "varchar(20)", True, "utf8mb4"), CatalogueColumn("b", "int", True, "generated")), ()
    )
    assert [(c.type, c.kind) for c in mysql.translate_table(table).columns] == [("text", ""), ("integer", "generated")]


def test_without_a_catalogue_columns_must_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a kind whose rows name none, such as that of docs/how-to/add-a-database.md."""
    import dataclasses

    source = source_of("oracle")
    monkeypatch.setitem(KINDS, "oracle", dataclasses.replace(KINDS["oracle"], tells_columns=False))  # type: ignore[arg-type]
    monkeypatch.setitem(CLIENTS, "oracle", dataclasses.replace(CLIENTS["oracle"], columns=None))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dbo\.orders without columns: kind oracle is not asked for columns, declare them"):
        source_of("oracle")
    with pytest.raises(DatabaseError, match="kind oracle is not asked for columns"):
        open_columns(source.database)
