"""How the drivers are called, on stand-ins of their modules: no server of these kinds is started, no driver is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from cdc_assets.clients.databases import mongodb
from cdc_assets.clients.databases.mongodb import MongoDbReader
from cdc_assets.clients.databases.oracle import OracleConnection
from cdc_assets.clients.databases.sqlserver import SqlServerConnection
from cdc_assets.registry.databases import MongoDb, Oracle, SqlServer
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.specs import Column

WHO: Mapping[str, Any] = {"user": "cdc", "password": {"secret": "rows"}}
ORDERS = TableId("shop", "orders")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_ROWS", "hidden")


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    made = ModuleType(name)
    for member, value in members.items():
        setattr(made, member, value)
    monkeypatch.setitem(sys.modules, name, made)


def connecting(asked: list[dict[str, Any]], connection: Any) -> Callable[..., Any]:
    @contextmanager
    def connect(**options: Any) -> Iterator[Any]:
        asked.append(options)
        yield connection

    return connect


@contextmanager
def cursor() -> Iterator[str]:
    yield "cursor"


def test_sql_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    asked: list[dict[str, Any]] = []
    tds = SimpleNamespace(Error=Error)
    module(monkeypatch, "pytds", connect=connecting(asked, SimpleNamespace(cursor=cursor)), tds_base=tds)
    server = SqlServerConnection(SqlServer(kind="sqlserver", host="db", dbname="shop", instance="two", encrypt=False, **WHO))
    with server.cursor() as opened:
        assert opened == "cursor"
    assert (asked[0]["dsn"], asked[0]["port"], asked[0]["database"], asked[0]["autocommit"]) == ("db\\two", None, "shop", True)
    assert "cafile" not in asked[0]
    assert server.normalize(UUID(int=0xAB)) == "00000000-0000-0000-0000-0000000000AB"
    encrypted = SqlServerConnection(SqlServer(kind="sqlserver", host="db", dbname="shop", trust_server_certificate=True, **WHO))
    with pytest.raises(DatabaseError, match="SQL Server at db:1433: login failed"), encrypted.cursor():
        raise Error("login failed")
    assert (asked[1]["port"], asked[1]["validate_host"], "cafile" in asked[1]) == (1433, False, True)


def test_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    asked: list[dict[str, Any]] = []
    kinds = ("NUMBER", "CLOB", "NCLOB", "BLOB", "LONG", "LONG_NVARCHAR", "LONG_RAW", "DATE")
    types = {f"DB_TYPE_{kind}": f"DB_TYPE_{kind}" for kind in kinds}
    connection = SimpleNamespace(cursor=cursor, autocommit=False, outputtypehandler=None)
    module(monkeypatch, "oracledb", connect=connecting(asked, connection), Error=Error, **types)
    server = OracleConnection(Oracle(kind="oracle", host="db", dbname="ORCL", pdb="ERP", **WHO))
    with server.cursor():
        handler: Any = connection.outputtypehandler
    assert (asked[0]["service_name"], connection.autocommit) == ("ERP", True)
    taken = SimpleNamespace(arraysize=7, var=lambda *values, **named: (values, named))
    told = {kind: handler(taken, SimpleNamespace(type_code=f"DB_TYPE_{kind}")) for kind in ("NUMBER", "CLOB", "BLOB", "DATE")}
    assert told["NUMBER"] == ((str, 255, 7), {"outconverter": Decimal})
    assert (told["CLOB"][0], told["BLOB"][0], told["DATE"]) == (("DB_TYPE_LONG",), ("DB_TYPE_LONG_RAW",), None)
    with pytest.raises(DatabaseError, match="Oracle at db:1521: ORA-00942"), server.cursor():
        raise Error("ORA-00942")


class Collection:
    """Documents, found as a driver finds them."""

    def __init__(self, documents: Sequence[dict[str, Any]]) -> None:
        self.documents = list(documents)

    def find(self, wanted: dict[str, Any], fields: dict[str, int], batch_size: int = 0) -> Any:
        ids = wanted.get("_id", {}).get("$in")
        found = [{k: v for k, v in d.items() if k in fields} for d in self.documents if ids is None or d["_id"] in ids]

        class Found(list[Any]):
            def sort(self, name: str, way: int) -> list[Any]:  # type: ignore[override]
                return sorted(self, key=lambda d: str(d[name]))

        return Found(found)

    def insert_one(self, document: dict[str, Any]) -> None:
        self.documents.append(document)

    def delete_many(self, wanted: dict[str, Any]) -> None:
        self.documents = [d for d in self.documents if d["_id"] == wanted["_id"]["$ne"]]


class ObjectId(str):
    """24 hexadecimal digits."""

    @classmethod
    def is_valid(cls, text: str) -> bool:
        return len(text) == 24


class Decimal128:
    def to_decimal(self) -> Decimal:
        return Decimal("1.50")


def test_mongodb(monkeypatch: pytest.MonkeyPatch) -> None:
    class PyMongoError(Exception):
        pass

    asked: list[dict[str, Any]] = []
    held = Collection([{"_id": ObjectId(f"{i:024x}"), "price": Decimal128(), "other": i} for i in range(5)])
    client = {"shop": SimpleNamespace(get_collection=lambda name, **concerns: asked.append(concerns) or held)}

    def connect(hosts: list[str], **options: Any) -> Any:
        return connecting(asked, client)(hosts=hosts, **options)

    module(monkeypatch, "pymongo", MongoClient=connect, errors=SimpleNamespace(PyMongoError=PyMongoError))
    module(monkeypatch, "pymongo.read_concern", ReadConcern=str)
    module(monkeypatch, "pymongo.write_concern", WriteConcern=str)
    module(monkeypatch, "bson", ObjectId=ObjectId)
    monkeypatch.setattr(mongodb, "PAGE", 2)
    reader = MongoDbReader(MongoDb(kind="mongodb", hosts="a:1,b:2", **WHO))
    columns = (Column("_id", "text", False), Column("price", "numeric(9,2)"), Column("absent", "text"))
    pages = list(reader.pages(ORDERS, columns, 1))
    assert [len(page) for page in pages] == [2, 2, 1]
    assert pages[0][0] == (f"{0:024x}", Decimal("1.50"), None)
    assert (asked[0]["hosts"], asked[0]["authSource"]) == (["a:1", "b:2"], "admin")
    assert asked[1] == {"read_concern": "majority", "write_concern": "majority"}
    assert [row[0] for row in reader.rows_of(ORDERS, columns, [(f"{3:024x}",), ("none",)])] == [f"{3:024x}"]
    reader.mark(ORDERS, "position-1")
    assert held.documents == [{"_id": "position-1"}]
