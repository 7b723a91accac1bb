"""What every kind of source database answers: its tables, values that would be misread, counts at one moment of its log.

A database is opened by its kind (clients.kind_clients), and nothing is connected before it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from cdc_assets.registry.field_types import TableId

if TYPE_CHECKING:
    from cdc_assets.clients.schema_history import TableModel

WAY_OUT = "leave the column out (except_column_list), or accept that (accept_inexact)"


@dataclass(frozen=True)
class CatalogueColumn:
    """A column as the catalogue has it.

    `type` is PostgreSQL's `format_type()`, such as `numeric(10,2)`, or MariaDB's column_type. `kind` is `generated` for a
    generated column, which the log does not have; else MariaDB's character set, or what a type is that is not PostgreSQL's
    own (or an array's element): enum, composite, domain, range, multirange, base, fixed. `number` is attnum, which a rename
    keeps; `missing` the text of what rows have that are older than the column; `defaulted`: it has a default.
    `comment` is what the database says of it, for people: another one is no change. `members` are an enum's labels in
    their order, or a composite's attributes, as `number=name` (spark.silver.schema_difference).
    """

    name: str
    type: str
    nullable: bool
    kind: str = ""
    number: int | None = None
    missing: str | None = None
    defaulted: bool = False
    comment: str = field(default="", compare=False)
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogueTable:
    """A table's columns in order, and its primary key's columns in key order (empty: no key).

    `generation` is what a table dropped and made again does not keep: its number in the catalogue, or the place in the log of its
    last DROP or CREATE (cdc_assets.clients.schema_history); empty where neither is known. `drops` are all such places, lowest
    first. `models` is what the connector took the table for, oldest first, where its schema history was asked.
    """

    id: TableId
    columns: tuple[CatalogueColumn, ...]
    primary_key: tuple[str, ...]
    generation: str = ""
    drops: tuple[str, ...] = ()
    models: tuple[TableModel, ...] = field(default=(), compare=False)

    @property
    def model(self) -> TableModel | None:
        """The newest model; None: there is none, or nobody has asked."""
        return self.models[-1] if self.models else None


def rows_by_table(rows: Iterable[Sequence[Any]]) -> dict[TableId, list[Any]]:
    """A catalogue's rows, which begin with schema and table, by their table."""
    tables: dict[TableId, list[Any]] = {}
    for row in rows:
        tables.setdefault(TableId(row[0], row[1]), []).append(row)
    return tables


class SourceSnapshot(Protocol):
    """A moment of the source, at which rows were counted."""

    @property
    def text(self) -> str:
        """The moment in words, for messages."""


class SourceDatabase(Protocol):
    """One source database of any kind that is asked for its catalogue."""

    KIND: ClassVar[str]
    """The name of its row in the table of kinds."""
    LOCK_LIMIT: ClassVar[str]
    """The statement that keeps a connection from waiting long for a lock; empty where nobody is held up."""

    def connection(self) -> AbstractContextManager[Any]:
        """Takes statements, each committed by itself; the driver's errors are DatabaseErrors."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists."""

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Of these columns, those that hold values which a connector would change unnoticed: {column: what and what to do}.

        `snapshot`: the connector is about to read the table whole.
        """

    def counts(self, ids: Sequence[TableId]) -> tuple[SourceSnapshot, dict[TableId, int]]:
        """`count(*)` of each table, all at one and the same moment."""

    def emit_marker(self, marker: str, prefix: str = "") -> str:
        """Write a mark into the log, behind everything committed before the call; the position.

        `prefix`: what its connector knows our messages by (cdc_assets.capture.connectors.debezium_settings), where it has such.
        """
