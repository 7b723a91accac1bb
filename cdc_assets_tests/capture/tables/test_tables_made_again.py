"""A table of a binlog that was dropped and made again is another one, whether its catalogue is MariaDB's or MySQL's."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source, UnaskedSource

ID = TableId("shop", "orders")
TABLE = CatalogueTable(ID, (CatalogueColumn("id", "integer", False),), ("id",))
COLUMN = {"name": "id", "typeName": "INT", "optional": False}
HISTORY = [
    {"position": {"file": "binlog.000001", "pos": place}, "ddl": kind, "tableChanges": [{"type": kind, "id": '"shop"."orders"'}]}
    for kind, place in (("DROP", 700), ("CREATE", 900))
]
HISTORY[1]["tableChanges"][0]["table"] = {"columns": [COLUMN]}  # type: ignore[index]


class Topic:
    """The schema history."""

    def states(self, topics: list[str]) -> dict[str, Any]:
        return {topic: SimpleNamespace(ranges={0: (0, len(HISTORY))}) for topic in topics if topic == "shop.schema-history"}

    def records(self, topic: str, ranges: Any) -> list[Any]:
        return [SimpleNamespace(value=json.dumps(record).encode()) for record in HISTORY]


@pytest.mark.parametrize(("kind", "declaration"), [("mariadb", Source), ("mysql", UnaskedSource)])
def test_the_place_of_the_statement_tells_it(kind: str, declaration: Any) -> None:
    database = {"kind": kind, "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    source = declaration.model_validate({"source": "shop", "database": database, "tables": [{"name": "shop.orders"}]})
    server = SimpleNamespace(tables=lambda _: {ID: TABLE})
    platform: Any = SimpleNamespace(database=lambda _: server, columns=lambda _: server, core_kafka=lambda _: Topic())
    found = catalogue_of(Chain(platform, source), source.tables)[ID]
    assert found.generation == "0000000001.0000000000000384"
    assert found.drops == ("0000000001.00000000000002bc", "0000000001.0000000000000384")
