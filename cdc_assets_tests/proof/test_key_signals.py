"""Keys asked for again from MySQL, SQL Server, Oracle, MongoDB: conditions run by SQLite, signals as they are sent."""

from __future__ import annotations

import json
import re
import sqlite3
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.capture.connectors.debezium_signals import collection
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.clients.databases.mongodb import MongoDbReader
from cdc_assets.clients.databases.row_pages import SqlReader
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import healing
from cdc_assets.proof.comparison_result import DIFFERENT, RowDifference, TableResult
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.row_servers import EVERY, InSqlite, source_of
from spark.errors import JobRefusedError
from spark.specs import Column
from spark.values.sql_dialects import Dialect

KEY = (Column("code", "text", False), Column("line", "integer", False))
ODD = ["c'1", 'c"1', "c\\1", "c\\'; --", "c%s", "ü€", ""]
NAMES = {"mysql": "ours.signals", "sqlserver": "shop.ours.signals", "oracle": "ORCL.ours.signals", "mongodb": "ours.signals"}


def in_sqlite(condition: str) -> str:
    """SQLite has no N'…', and no character sets."""
    translated = re.sub(r"_utf8mb4 (X'[0-9a-f]*')", r"CAST(\1 AS TEXT)", condition)
    return re.sub(r"= N'", "= '", translated)


@pytest.mark.parametrize("dialect", EVERY, ids=lambda d: type(d).__name__)
def test_a_condition_finds_its_keys_and_no_other(dialect: Dialect) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (code TEXT, line INT)")
    rows = [(code, line) for code in ODD for line in (-1, 2)]
    database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    wanted = [(code, 2) for code in ODD[::2]]
    found = database.execute(f"SELECT * FROM t WHERE {in_sqlite(dialect.condition(KEY, wanted))}").fetchall()
    assert sorted(found) == sorted(wanted)
    assert "12.50" in dialect.condition(KEY[1:], [(Decimal("12.50"),)])
    with pytest.raises(JobRefusedError, match="a value of bytes cannot be asked for"):
        dialect.condition(KEY[1:], [(b"x",)])


def test_a_document_is_asked_for_by_its_id() -> None:
    database: Any = source_of("mongodb").database
    plain = "a1b2c3d4e5f6a1b2c3d4e5f6"
    asked = json.loads(MongoDbReader(database).condition(KEY[:1], [("x",), (7,), (plain,), (Decimal("1.5"),)]))
    assert asked == {"_id": {"$in": ["x", 7, plain, {"$oid": plain}, {"$numberDecimal": "1.5"}]}}


def test_a_collection_of_mongodb_is_named_as_it_is() -> None:
    """The connector expands a pattern to collections that it has met, and takes any other for a name."""
    orders = TableId("shop", "orders")
    assert collection(source_of("mongodb"), orders) == "shop.orders"
    assert collection(source_of("oracle"), orders) == r"ORCL\.shop\.orders"
    assert collection(source_of("mysql"), orders) == r"shop\.orders"


def test_signals_hold_what_fits_and_every_key_once() -> None:
    reader = SqlReader(InSqlite(EVERY[1]))
    rows = [(f"code {i}", i) for i in range(200)]
    source = source_of("sqlserver")
    table = TableId("dbo", "line item")
    wanted = healing.SignalledTable(names.collection(source, table), collection(source, table))
    sent = list(healing.signals(reader, wanted, KEY, rows))
    assert len(sent) > 2
    assert all(len(data) <= healing.DATA for data in sent)
    told = [json.loads(data) for data in sent]
    assert sorted(
        int(n) for data in told for n in re.findall(r"\[line\] = (\d+)", data["additional-conditions"][0]["filter"])
    ) == [i for _, i in rows]
    assert {tuple(data["data-collections"]) for data in told} == {(r"shop\.dbo\.line\ item",)}
    assert re.fullmatch(told[0]["data-collections"][0], "shop.dbo.line item")
    assert {data["additional-conditions"][0]["data-collection"] for data in told} == {"shop.dbo.line item"}


@pytest.mark.parametrize("kind", NAMES)
def test_the_connector_listens_to_the_declared_table(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    assert "signal.data.collection" not in capture_config(source_of(kind))
    config = capture_config(source_of(kind, reconciliation={"signals": "ours.signals", "marker": "ours.marker"}))
    assert (config["signal.data.collection"], config["signal.enabled.channels"]) == (NAMES[kind], "source")
    listed = config.get("table.include.list") or config["collection.include.list"]
    assert listed.replace("(?-i:", "").replace(")", "").endswith(r",ours\.marker,ours\.signals")


def test_heal_asks_the_connector_or_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_assets.proof.healing import heal

    server = InSqlite(EVERY[0])
    server.database.execute("CREATE TABLE shop.signals (id TEXT PRIMARY KEY, type TEXT, data TEXT)")
    monkeypatch.setattr(healing, "open_reader", lambda database: SqlReader(server))
    differences = (
        RowDifference("3:c'1;", "missing", {"id": "c'1"}, None, "bronze or before it"),
        RowDifference("1:x;", "phantom", None, {"id": "x"}, "bronze or before it"),
    )
    result = TableResult("erp/shop__orders", DIFFERENT, keys_differing=2, differences=differences)
    for declared, asked in (({}, None), ({"signals": "shop.signals"}, 1)):
        source: UnaskedSource = source_of("mysql", reconciliation=declared)
        if asked is None:
            with pytest.raises(DatabaseError, match="declares no signal table.*id varchar"):
                heal(Chain(Platform(lake_root="/none"), source), source.tables[0], result)
            continue
        assert heal(Chain(Platform(lake_root="/none"), source), source.tables[0], result) == (0, asked)
    ((name, kind, data),) = server.database.execute("SELECT id, type, data FROM shop.signals").fetchall()
    assert (name.startswith("heal-"), kind) == (True, "execute-snapshot")
    condition = json.loads(data)["additional-conditions"][0]
    assert condition == {"data-collection": "shop.orders", "filter": "(`id` = _utf8mb4 X'632731')"}
    assert TableId("shop", "orders") == source.tables[0].id
