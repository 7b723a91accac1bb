"""How a server of each kind is asked, a row each, and how it is opened: by its kind, and nothing is connected yet.

The table stands above the files of the kinds. A row without a field is a kind that cannot be asked so; it is refused, with what
has to be declared instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cdc_assets.clients.databases import event_windows, mariadb, mysql, postgresql_cut
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.databases.mongodb import MongoDbColumns, MongoDbReader
from cdc_assets.clients.databases.oracle import OracleColumns, OracleConnection
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.clients.databases.row_pages import Connection, RowReader, SqlReader
from cdc_assets.clients.databases.source_cut import RowsAtOnce, SourceCut
from cdc_assets.clients.databases.sqlserver import SqlServerColumns, SqlServerConnection
from cdc_assets.clients.databases.translated_catalogue import TranslatedCatalogue
from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import row_of

if TYPE_CHECKING:
    from spark.upkeep.declared_windows import WindowedSpec

_Rows = TypeVar("_Rows", covariant=True)


class OpenMoment(Protocol[_Rows]):
    """Opens the rows of one moment, until the end of the block; `statement_timeout` in seconds."""

    def __call__(self, database: Any, *, statement_timeout: float) -> AbstractContextManager[_Rows]:
        """`database` is what `KindClients.database` has opened."""


@dataclass(frozen=True, kw_only=True)
class KindClients:
    """What a kind's server can be asked. Every callable takes what stands below `database:`, a model of the kind's own."""

    database: Callable[[Any], SourceDatabase] | None = None
    """Its catalogue, and questions to its log. None: columns are declared, or translated (`columns`). With both (MySQL), this
    one is for the cut. Goes with `cut` and `rows`, and with the fact `tells_log`."""
    cut: OpenMoment[SourceCut] | None = None
    """Its rows at one exact moment."""
    rows: OpenMoment[RowsAtOnce] | None = None
    """Its rows now."""
    pages: Callable[[Any], RowReader] | None = None
    """Rows page by page, of what is asked in no SQL."""
    connection: Callable[[Any], Connection] | None = None
    """Pages by SQL, and questions of preflight."""
    columns: Callable[[Any], TranslatedCatalogue] | None = None
    """Columns where a table declares none. Goes with the fact `tells_columns`."""
    signals: Callable[[Any], Any] | None = None
    """Writes to a signal table that we make (capture.connectors.debezium_signals)."""
    windows: Callable[[Any, TableId, WindowedSpec], list[tuple[Any, ...]]] | None = None
    """Figures by windows of event time, by the server's SQL (chain.windowed_results)."""


CLIENTS: Mapping[str, KindClients] = {
    "postgresql": KindClients(
        database=PostgresDatabase,
        cut=postgresql_cut.open_cut,
        rows=postgresql_cut.open_rows,
        signals=PostgresCapture,
        windows=event_windows.read_windows,
    ),
    "mariadb": KindClients(
        database=mariadb.MariaDbDatabase,
        cut=mariadb.open_cut,
        rows=mariadb.open_cut,
        signals=mariadb.MariaDbSignals,
        windows=event_windows.of_mariadb,
    ),
    "mysql": KindClients(
        database=mysql.MySqlDatabase,
        cut=mysql.open_cut,
        rows=mysql.open_rows,
        connection=mysql.MySqlConnection,
        columns=mysql.MySqlColumns,
        signals=mysql.MySqlCapture,
        windows=event_windows.of_mysql,
    ),
    "sqlserver": KindClients(connection=SqlServerConnection, columns=SqlServerColumns),
    "oracle": KindClients(connection=OracleConnection, columns=OracleColumns),
    "mongodb": KindClients(pages=MongoDbReader, columns=MongoDbColumns),
    "topics": KindClients(),
}


def clients_of(kind: str) -> KindClients:
    """How a server of a kind is asked. Raises LookupError: there is no row for the kind."""
    return row_of(CLIENTS, kind, __name__)


def open_database(database: DatabaseKind) -> Any:
    """A SourceDatabase, by its kind."""
    opener = clients_of(database.kind).database
    assert opener is not None, f"kind {database.kind} is not asked: its columns are declared"
    return opener(database)


def open_columns(database: DatabaseKind) -> TranslatedCatalogue:
    """By its kind; nothing is connected yet. Raises DatabaseError: it has no catalogue that is asked."""
    opener = clients_of(database.kind).columns
    if opener is None:
        raise DatabaseError(f"kind {database.kind} is not asked for columns: declare them, with the keys (columns: …, keys: …)")
    return opener(database)


def open_reader(database: DatabaseKind) -> RowReader:
    """By its kind. Raises DatabaseError: there is none for it."""
    opener = clients_of(database.kind).pages
    if opener is None:
        return SqlReader(open_connection(database))
    return opener(database)


def open_connection(database: DatabaseKind) -> Connection:
    """Of a kind that is asked in SQL. Raises DatabaseError: there is none for it."""
    opener = clients_of(database.kind).connection
    if opener is None:
        raise DatabaseError(f"a database of kind {database.kind} is not asked through a driver of these")
    return opener(database)


def open_cut(database: SourceDatabase, *, statement_timeout: float) -> AbstractContextManager[SourceCut]:
    """The snapshot of this moment, until the end of the block; seconds per statement.
    Raises DatabaseError: the server cannot tell an exact moment, or is none to compare with."""
    opener = clients_of(database.KIND).cut
    assert opener is not None, database.KIND
    return opener(database, statement_timeout=statement_timeout)


def open_rows(database: SourceDatabase, *, statement_timeout: float) -> AbstractContextManager[RowsAtOnce]:
    """The rows of this moment, whichever that is; of a standby of PostgreSQL as well."""
    opener = clients_of(database.KIND).rows
    assert opener is not None, database.KIND
    return opener(database, statement_timeout=statement_timeout)
