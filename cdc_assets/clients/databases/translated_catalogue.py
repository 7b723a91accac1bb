"""Databases whose column types are translated into PostgreSQL's: how their catalogue, rows and connection are opened.

A kind without such a part is refused, with what has to be declared instead. Such a database's connector takes signals from a
declared table. Nothing of ours is made there: who may make a signal table must let the server capture it too, which is an
administrator's. No place of the log is asked, so nothing is counted at one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable, SourceSnapshot
from cdc_assets.clients.databases.row_pages import Connection, RowReader, SqlReader
from cdc_assets.registry import settings
from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS


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


def open_columns(database: DatabaseKind) -> TranslatedCatalogue:
    """By its kind; nothing is connected yet.

    Raises:
        DatabaseError: it has no catalogue that is asked.
    """
    opener = KINDS[database.kind].columns
    if opener is None:
        raise DatabaseError(f"kind {database.kind} is not asked for columns: declare them, with the keys (columns: …, keys: …)")
    catalogue: TranslatedCatalogue = opener.load()(database)
    return catalogue


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


def open_reader(database: DatabaseKind) -> RowReader:
    """By its kind.

    Raises:
        DatabaseError: there is none for it.
    """
    opener = KINDS[database.kind].pages
    if opener is None:
        return SqlReader(open_connection(database))
    reader: RowReader = opener.load()(database)
    return reader


def open_connection(database: DatabaseKind) -> Connection:
    """Of a kind that is asked in SQL.

    Raises:
        DatabaseError: there is none for it.
    """
    opener = KINDS[database.kind].connection
    if opener is None:
        raise DatabaseError(f"a database of kind {database.kind} is not asked through a driver of these")
    connection: Connection = opener.load()(database)
    return connection


class SignalledDatabase:
    """One server of such a kind (capture.onboarding.onboarding_state.CaptureDatabase)."""

    LOCK_LIMIT = ""

    def __init__(self, database: DatabaseKind) -> None:
        self.KIND = database.kind
        self._database, self._catalogue, self._reader = database, open_columns(database), open_reader(database)

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return self._catalogue.place

    def connection(self) -> AbstractContextManager[Any]:
        """A cursor, each statement committed by itself."""
        return open_connection(self._database).cursor()

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each table that exists, with types as PostgreSQL would write them."""
        return self._catalogue.tables(ids)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """What the connector would change unnoticed, and what to do."""
        return self._catalogue.misread(table, columns, snapshot=snapshot)

    def counts(self, ids: Sequence[TableId]) -> tuple[SourceSnapshot, dict[TableId, int]]:
        """Nothing is counted.

        Raises:
            DatabaseError: always.
        """
        raise DatabaseError(f"{self.place}: no count has a place in its log that is known here")

    def emit_marker(self, marker: str, prefix: str = "") -> str:
        """No mark can be written into the log but by a row.

        Raises:
            DatabaseError: always.
        """
        raise DatabaseError(f"{self.place}: its log is marked by a row of a marker table only")

    def ensure_signal_table(self, table: TableId) -> None:
        """See that it is there.

        Raises:
            DatabaseError: it is not.
        """
        if table not in self.tables([table]):
            raise DatabaseError(f"{self.place}: there is no signal table {table}, or the role may not see it")

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal; one of the same id is taken away before."""
        self._reader.clear(table, signal)
        self._reader.signal(table, signal, kind, data)

    def clear_signals(self, table: TableId) -> int:
        """Remove signals and watermarks that have been read; the number of rows."""
        return self._reader.clear(table)

    def plan_reading(self, table: TableId, condition: str) -> None:
        """No condition is taken.

        Raises:
            DatabaseError: always: a server that runs several statements of one text would run what follows the condition.
        """
        raise DatabaseError(f"kind {self.KIND} is not asked about conditions: read the whole table again")

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""
        self._reader.mark(table, marker)
