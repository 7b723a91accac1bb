"""What a schema history knew of its tables at a place, by which a connector goes on under another server id."""

from __future__ import annotations

from typing import Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.schema_history import definitions_at
from cdc_assets.registry.field_types import TableId

T, U = TableId("x", "t"), TableId("x", "u")


def record(place: int, kind: str, table: str, columns: int, *, file: int = 1) -> dict[str, Any]:
    change = {"type": kind, "id": f'"x"."{table}"', "table": {"columns": columns}}
    position = {"file": f"binlog.{file:06d}", "pos": place, "gtids": f"0-{place}-1"}
    return {"position": position, "databaseName": "x", "ddl": kind, "tableChanges": [change]}


HISTORY = [
    record(100, "CREATE", "t", 1),
    record(100, "CREATE", "u", 1),
    record(200, "ALTER", "t", 2),
    record(300, "CREATE", "other", 1),
    record(400, "DROP", "u", 1),
    record(50, "ALTER", "t", 3, file=2),
]


def known(place: int, file: int = 1) -> dict[str, int]:
    found = definitions_at(HISTORY, [T, U], BinlogPosition.of(f"binlog.{file:06d}", place))
    assert all(change["type"] == "CREATE" for one in found for change in one["tableChanges"])
    return {change["id"]: change["table"]["columns"] for one in found for change in one["tableChanges"]}


def test_the_newest_of_each_table_up_to_the_place_whatever_its_gtid() -> None:
    assert known(99) == {}
    assert known(100) == {'"x"."t"': 1, '"x"."u"': 1}
    assert known(399) == {'"x"."t"': 2, '"x"."u"': 1}
    assert known(400) == {'"x"."t"': 2}
    assert known(50, file=2) == {'"x"."t"': 3}
    assert {change["id"] for one in HISTORY for change in one["tableChanges"] if change["type"] == "ALTER"} == {'"x"."t"'}
