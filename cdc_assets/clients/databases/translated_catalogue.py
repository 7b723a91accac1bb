"""Catalogues whose column types are translated into PostgreSQL's: what they tell, and how their rows become tables.

Each is opened by its kind (clients.kind_clients).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.databases.row_pages import Connection
from cdc_assets.registry import settings
from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.field_types import TableId


class TranslatedCatalogue(Protocol):
    """One source database: its tables with types as PostgreSQL would write them (spark.values.other_databases says what is
    lost).
    """

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists."""

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """As databases.catalogue.SourceDatabase has it."""


@dataclass(frozen=True, kw_only=True)
class FoundColumn:
    """A row of a catalogue: a column, its type as PostgreSQL would write it, and its place in the primary key (0: none)."""

    table: TableId
    name: str
    type: str
    kind: str = ""
    nullable: bool
    defaulted: bool = False
    key_place: int = 0


def tables_of(found: Sequence[FoundColumn]) -> dict[TableId, CatalogueTable]:
    """The columns by their table, in their order."""
    by_table: dict[TableId, list[FoundColumn]] = {}
    for column in found:
        by_table.setdefault(column.table, []).append(column)
    return {
        table: CatalogueTable(
            table,
            tuple(CatalogueColumn(c.name, c.type, c.nullable, c.kind, defaulted=c.defaulted) for c in columns),
            tuple(c.name for c in sorted(columns, key=lambda c: c.key_place) if c.key_place),
        )
        for table, columns in by_table.items()
    }


def condition_for(server: Connection, ids: Sequence[TableId], schema: str, table: str) -> str:
    """A condition that holds for these tables; their names are bound, two for each."""
    placeholder = server.dialect.placeholder
    conditions = [f"({schema} = {placeholder(2 * n + 1)} AND {table} = {placeholder(2 * n + 2)})" for n in range(len(ids))]
    return f"({' OR '.join(conditions)})" if conditions else "(1 = 0)"


def place_of(database: DatabaseKind) -> str:
    """Its address, for messages."""
    return ":".join(str(settings.resolve(getattr(database, key))) for key in database.ADDRESS)
