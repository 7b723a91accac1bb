"""What a translated catalogue answers, and how one is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc_assets import settings
from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import KINDS
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.rows.sql import Connection


class TranslatedCatalogue(Protocol):
    """One source database: its tables with types as PostgreSQL would write them (spark.kinds.column_losses says what is lost)."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists."""

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """As databases.catalogue.SourceDatabase has it."""


def open_columns(database: DatabaseKind) -> TranslatedCatalogue:
    """By its kind; nothing is connected yet.

    Raises:
        DatabaseError: it has no catalogue that is asked.
    """
    part = KINDS[database.kind].columns
    if part is None:
        raise DatabaseError(f"kind {database.kind} is not asked for columns: declare them, with the keys (columns: …, keys: …)")
    found: TranslatedCatalogue = part.load()(database)
    return found


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
    place = server.dialect.placeholder
    each = [f"({schema} = {place(2 * n + 1)} AND {table} = {place(2 * n + 2)})" for n in range(len(ids))]
    return f"({' OR '.join(each)})" if each else "(1 = 0)"


def place_of(database: DatabaseKind) -> str:
    """Its address, for messages."""
    return ":".join(str(settings.resolve(getattr(database, key))) for key in database.ADDRESS)
