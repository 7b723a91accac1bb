"""Debezium's models of tables: what it takes a table's columns for, by the newest record of each in a schema history.

A connector of a binlog reads each DDL statement's text, and the rows behind it by the model that it makes of that. A record holds
the statement, the place where its transaction begins, and the tables as they are from then on.
https://debezium.io/documentation/reference/3.5/connectors/mariadb.html#mariadb-schema-history-topic
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from spark.delta.identifiers import double_quote

_SHOWN = 300
"""Characters of a statement; those of a wide table have thousands."""


@dataclass(frozen=True)
class ModelColumn:
    """One column as Debezium holds it: the type's words as they were written, in capitals, and what stood beside them."""

    name: str
    type: str
    nullable: bool
    length: int | None = None
    scale: int | None = None
    charset: str = ""
    labels: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name and type, for people."""
        sizes = ",".join(str(size) for size in (self.length, self.scale) if size is not None)
        # Debezium gives an enum a length of 1, and a set that of all its labels.
        sizes = ",".join(self.labels) or sizes
        return f"{self.name} {self.type}" + (f"({sizes})" if sizes else "") + (f" {self.charset}" if self.charset else "")


@dataclass(frozen=True)
class TableModel:
    """A table's columns in order, and the statement by which it came to have them.

    `place` is the statement's place in the binlog; empty where the server was asked for the definition, as a snapshot does.
    `begins` is the place from which on it holds, either way, as the lake's positions have it. `written` has such a place, and
    the GTID beside it, of each record with these columns.
    """

    columns: tuple[ModelColumn, ...]
    statement: str
    place: str = ""
    begins: str = ""
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The columns, for people."""
        return ", ".join(column.text for column in self.columns)

    @property
    def since(self) -> str:
        """From which statement on it holds, for people."""
        words = " ".join(self.statement.split())
        shown = words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
        return f"{shown} (at {self.place})" if self.place else "the snapshot"


def newest_models(records: Iterable[Mapping[str, Any]], tables: Collection[TableId]) -> dict[TableId, TableModel]:
    """The last model of each table; one that was dropped, or is not among the records, is left out."""
    return {table: models[-1] for table, models in models_in_order(records, tables).items()}


def models_in_order(records: Iterable[Mapping[str, Any]], tables: Collection[TableId]) -> dict[TableId, tuple[TableModel, ...]]:
    """Each table's models since it was last made, oldest first; a record that changes no column adds none."""
    ids = {double_quote(*table): table for table in tables}
    found: dict[TableId, tuple[TableModel, ...]] = {}
    for record in records:
        for change in record.get("tableChanges") or ():
            table = ids.get(change["id"])
            if table is None:
                continue
            if change["type"] == "DROP":
                found.pop(table, None)
                continue
            model, before = _model(record, change["table"]), found.get(table, ())
            if not before or before[-1].columns != model.columns:
                found[table] = (*before, model)
            else:
                found[table] = (*before[:-1], replace(before[-1], written=before[-1].written + model.written))
    return found


def _model(record: Mapping[str, Any], table: Mapping[str, Any]) -> TableModel:
    position = record.get("position") or {}
    at = BinlogPosition.of(position["file"], position["pos"]) if position.get("file") else None
    place = at.text if at and not position.get("snapshot") else ""
    begins = at.in_positions if at else ""
    written = ((begins, str(position.get("gtids") or "")),)
    return TableModel(tuple(map(_column, table["columns"])), str(record.get("ddl") or ""), place, begins, written)


def _column(column: Mapping[str, Any]) -> ModelColumn:
    return ModelColumn(
        name=column["name"],
        type=str(column["typeName"]).upper(),
        nullable=bool(column["optional"]),
        length=column.get("length"),
        scale=column.get("scale"),
        charset=str(column.get("charsetName") or ""),
        labels=tuple(column.get("enumValues") or ()),
    )
