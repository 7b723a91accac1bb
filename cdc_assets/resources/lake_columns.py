"""The columns of a Delta table as its readers get them: names, and types as Spark and DDL write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cdc_assets.resources.delta_log import open_table

_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


@dataclass(frozen=True)
class LakeColumn:
    """A column: `decimal(10,2)`, `array<string>`."""

    name: str
    type: str
    nullable: bool


def lake_columns(path: str) -> list[LakeColumn]:
    """In the table's order; none where there is no table yet."""
    table = open_table(path)
    if table is None:
        return []
    # https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format
    fields = json.loads(table.schema().to_json())["fields"]
    return [LakeColumn(field["name"], type_text(field["type"]), field["nullable"]) for field in fields]


def type_text(told: str | dict[str, Any]) -> str:
    """Of a type in a Delta schema."""
    if isinstance(told, str):
        return _NAMES.get(told, told)
    if told["type"] == "array":
        return f"array<{type_text(told['elementType'])}>"
    if told["type"] == "map":
        return f"map<{type_text(told['keyType'])},{type_text(told['valueType'])}>"
    fields = [f"{field['name']}:{type_text(field['type'])}" for field in told["fields"]]
    return f"struct<{','.join(fields)}>"
