"""A server that takes signals from a declared table: SQL Server, Oracle, MongoDB.

Nothing of ours is made there: who may make a signal table must let the server capture it too, which is an administrator's. No
place of the log is asked, so nothing is counted at one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from cdc_assets.clients.databases.catalogue import CatalogueTable, SourceSnapshot
from cdc_assets.clients.kind_clients import open_columns, open_connection, open_reader
from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId


class SignalledDatabase:
    """One server of such a kind (capture.onboarding.onboarding_state.CaptureDatabase)."""

    KIND: ClassVar[str]
    LOCK_LIMIT: ClassVar[str] = ""

    def __init__(self, database: DatabaseKind) -> None:
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
        """Nothing is counted. Raises DatabaseError: always."""
        raise DatabaseError(f"{self.place}: no count has a place in its log that is known here")

    def emit_marker(self, marker: str, prefix: str = "") -> str:
        """No mark can be written into the log but by a row. Raises DatabaseError: always."""
        raise DatabaseError(f"{self.place}: its log is marked by a row of a marker table only")

    def ensure_signal_table(self, table: TableId) -> None:
        """See that it is there. Raises DatabaseError: it is not."""
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
        Raises DatabaseError: always: a server that runs several statements of one text would run what follows the condition."""
        raise DatabaseError(f"kind {self.KIND} is not asked about conditions: read the whole table again")

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""
        self._reader.mark(table, marker)


class SqlServerSignals(SignalledDatabase):
    """A SQL Server with a declared signal table."""

    KIND = "sqlserver"


class OracleSignals(SignalledDatabase):
    """An Oracle with a declared signal table."""

    KIND = "oracle"


class MongoDbSignals(SignalledDatabase):
    """A MongoDB with a declared collection of signals."""

    KIND = "mongodb"
