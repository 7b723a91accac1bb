"""A database that is asked for tables through its translated catalogue, and whose connector takes signals from a declared table.

Nothing of ours is made there: who may make a signal table must let the server capture it too, which is an administrator's.
No place of the log is asked, so nothing is counted at one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.columns.translated import open_columns
from cdc_assets.resources.databases.catalogue import CatalogueTable, SourceSnapshot
from cdc_assets.resources.rows.open import open_connection, open_reader


class SignalledDatabase:
    """One server of such a kind (onboarding.work.CaptureDatabase)."""

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
