"""The columns of a lake table without Spark: as its readers get them, and as silver's schema ledger has kept them.

Names and types are written as Spark and DDL write them. The ledger also tells a column that the source has no longer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cdc_assets.clients import delta_rows
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.delta_log import open_table
from cdc_assets.registry.field_types import TableId
from spark.silver.column_ledger import ColumnLedger, ledger_in
from spark.table.identifiers import double_quote, text_literal

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


def ledger_of(path: str) -> ColumnLedger | None:
    """The table's ledger; None when there is no table, or none in it."""
    table = open_table(path)
    return None if table is None else ledger_in(table.metadata().configuration)


def last_known(path: str, table: TableId, *, keyed: bool = True) -> CatalogueTable | None:
    """A table that the source has no more, as silver knew it last; None when there is none, or (`keyed`) no key in its ledger."""
    ledger = ledger_of(path)
    if ledger is None or (keyed and not ledger.keys):
        return None
    fields = {c.name: c.event_field for c in ledger.columns}
    columns = [
        CatalogueColumn(c.name, c.source_type, c.nullable, c.kind, c.number, c.missing, c.defaulted, members=c.members)
        for c in ledger.of_source()
    ]
    return CatalogueTable(table, tuple(columns), tuple(fields[key] for key in ledger.keys), ledger.generation)


def rows_up_to(path: str, position: str) -> int | None:
    """Rows that were last changed at or before a position; None when delta-rs cannot say (delta_rows)."""
    table = open_table(path)
    return 0 if table is None else delta_rows.count_where(table, _up_to(position))


def rows_without_value(path: str, column: str, after: str) -> int | None:
    """Rows that were last changed at or before a position and have NULL in the column; None when delta-rs cannot say."""
    table = open_table(path)
    if table is None or not delta_rows.has_column(table, column):
        return 0
    return delta_rows.count_where(table, f"{_up_to(after)} AND {double_quote(column)} IS NULL")


def _up_to(position: str) -> str:
    return f"{double_quote('_cdc_position')} <= {text_literal(position)}"
