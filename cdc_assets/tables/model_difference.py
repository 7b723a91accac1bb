"""Debezium's model of a table against the server's catalogue; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from cdc_assets.quantity import quantity
from cdc_assets.resources.column_readings import is_json_in_text, reading_of_catalogue, reading_of_model
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.table_models import ModelColumn, TableModel

_GENERATED = "generated"


@dataclass(frozen=True)
class ModelDifference:
    """A model that is not the server's table: in what, since which statement, and both in words."""

    found: tuple[str, ...]
    since: str
    model: str
    server: str

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        return (
            f"Debezium reads its rows by a model that is not the server's table, since {self.since}: {'; '.join(self.found)}. "
            f"Model: {self.model}. Server: {self.server}"
        )


def model_difference(model: TableModel, table: CatalogueTable, signed: Collection[str] = ()) -> ModelDifference | None:
    """In what a model would give other values than the table has; None: in nothing. `signed`: see `reading_of_model`."""
    found = tuple(_differences(model, table, signed))
    server = ", ".join(map(_server_text, table.columns))
    return ModelDifference(found, model.since, model.text, server) if found else None


def _differences(model: TableModel, table: CatalogueTable, signed: Collection[str]) -> Iterator[str]:
    modelled, there = [c.name for c in model.columns], [c.name for c in table.columns]
    if len(modelled) != len(there):
        yield f"{quantity(len(modelled), 'column')} in the model, {quantity(len(there), 'column')} on the server"
    elif modelled != there:
        at = next(n for n, names in enumerate(zip(modelled, there, strict=True)) if names[0] != names[1])
        yield f"column {at + 1} is {modelled[at]} in the model, {there[at]} on the server"
    columns = {column.name: column for column in table.columns}
    for column in model.columns:
        if column.name in columns:
            yield from _of_column(column, columns[column.name], signed)


def _of_column(column: ModelColumn, there: CatalogueColumn, signed: Collection[str]) -> Iterator[str]:
    modelled, server = reading_of_model(column, signed), reading_of_catalogue(there)
    # The catalogue's character set of a generated column is not asked for.
    is_text = there.kind == _GENERATED and modelled.startswith("text ") and server.startswith("text ")
    if modelled != server and not is_text and not is_json_in_text(modelled, server):
        yield f"{column.name} is read as {modelled} (of {column.type}), and is {server}"
    if there.nullable and not column.nullable:
        yield f"{column.name} is NOT NULL in the model, and takes NULL"


def _server_text(column: CatalogueColumn) -> str:
    charset = "" if column.kind == _GENERATED else column.kind
    return f"{column.name} {column.type}" + (f" {charset}" if charset else "")
