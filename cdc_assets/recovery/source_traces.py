"""Which objects at a source's database are there for us, and how they go: PostgreSQL's slots, publications and tables in
the schema `cdc_assets`; the signal table of MariaDB and MySQL.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture, slot_of_kept_log
from cdc_assets.registry import names
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.table.identifiers import double_quote, quote


@dataclass(frozen=True)
class Trace:
    """One object of the source. `word`: see recovery.removal; `statement` removes it, for whoever may; `ours`: we have made it.

    `costs`: somebody has to remove it. What costs nothing may stay, and is told all the same.
    """

    word: str
    what: str
    statement: str
    ours: bool = True
    costs: bool = True

    def to_json(self) -> dict[str, Any]:
        """Its word, name and statement, for programs."""
        return {"word": self.word, "what": self.what, "statement": self.statement}


class Traces(Protocol):
    """What is ours in one source's database: found, and removed."""

    @property
    def place(self) -> str:
        """Its address, for messages."""

    def find(self) -> list[Trace]:
        """What is there, in the order in which it can go. Raises DatabaseError: the server cannot be asked."""

    def drop(self, trace: Trace) -> bool:
        """Remove it; False where the role may not.

        Raises:
            DatabaseError: the server cannot be asked, or something still uses it.
        """


def traces_of(source: BaseSource) -> Traces | None:
    """Of the source's database; None where nothing of ours is ever written: other kinds, and sources of topics."""
    from cdc_assets.recovery.kind_recovery import recovery_of

    traces = recovery_of(source).traces
    return None if traces is None else traces(source)


# Of the signal table's database: whether it is there, whether the table is, and what else is in it, also what is no table.
_THERE = """
SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = %s),
 (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s),
 (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name <> %s)
 + (SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = %s)
 + (SELECT COUNT(*) FROM information_schema.events WHERE event_schema = %s)
"""
# Access denied: to the database, to the table, for this statement.
_DENIED = (1044, 1142, 1227)


class BinlogTraces:
    """What is ours in a MariaDB or a MySQL (Traces)."""

    def __init__(self, source: CapturedSource, database: BinlogDatabase) -> None:
        self._source, self._database = source, database

    @property
    def place(self) -> str:
        """The server's host:port, for messages."""
        return self._database.place

    def find(self) -> list[Trace]:
        """The signal table, and its database where nothing else is in it.

        The database stays unless it is asked for: DROP DATABASE takes along what others have put there a moment before.
        """
        table = names.signal_table(self._source)
        with self._database.connection() as cursor:
            cursor.execute(_THERE, [table.schema, *table, *table, table.schema, table.schema])
            database, there, others = map(int, cursor.fetchone())
        ours = table == TableId(names.SIGNAL_SCHEMA, f"signal_{self._source.name}")
        traces = [Trace("tables", f"table {table}", f"DROP TABLE {quote(*table)}", ours=ours)] if there else []
        if ours and database and not others:
            what, statement = f"database {table.schema}, empty now", f"DROP DATABASE {quote(table.schema)}"
            traces.append(Trace("tables", what, statement, ours=False, costs=False))
        return traces

    def drop(self, trace: Trace) -> bool:
        """By its statement, where the role may."""
        import pymysql

        with self._database.connection() as cursor:
            try:
                cursor.execute(re.sub("^DROP (TABLE|DATABASE)", r"DROP \1 IF EXISTS", trace.statement))
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _DENIED:
                    raise
                return False
        return True


def mariadb_traces(source: CapturedSource) -> BinlogTraces:
    """What we keep at a MariaDB."""
    from cdc_assets.clients.databases.mariadb import MariaDbCapture

    return BinlogTraces(source, MariaDbCapture(expect(source.database, MariaDb)))


def mysql_traces(source: CapturedSource) -> BinlogTraces:
    """The same of a MySQL server."""
    from cdc_assets.clients.databases.mysql import MySqlCapture

    return BinlogTraces(source, MySqlCapture(expect(source.database, MySql)))


_SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY(%s) AND database = current_database() ORDER BY 1"
_PUBLICATIONS = "SELECT pubname FROM pg_publication WHERE pubname = ANY(%s) ORDER BY 1"
_IN_SCHEMA = """
SELECT c.relname FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind NOT IN ('i', 'I', 't')
WHERE n.nspname = %s ORDER BY 1
"""
# The process that reads for a stopped connector ends a moment later.
_SLOT_DEADLINE_SECONDS = 60.0


class PostgresTraces:
    """What is ours in a PostgreSQL (Traces)."""

    def __init__(self, source: CapturedSource, database: Any) -> None:
        self._source, self._database = source, PostgresCapture(database)

    @property
    def place(self) -> str:
        """The database's host:port/dbname, for messages."""
        return self._database.place

    def find(self) -> list[Trace]:
        """Slots first: they hold back the log. The schema goes only with the last table in it."""
        source = self._source
        slot, publication = names.slot_name(source), names.publication_name(source)
        tables = [table.table for table in (names.witness_table(source), names.starts_table(source), names.signal_table(source))]
        with self._database.connection() as connection:
            slots = _column(connection, _SLOTS, [slot, names.temporary(slot), slot_of_kept_log(slot)])
            publications = _column(connection, _PUBLICATIONS, [publication, names.temporary(publication)])
            within = _column(connection, _IN_SCHEMA, names.SIGNAL_SCHEMA)
        traces = [Trace("slot", f"replication slot {name}", f"SELECT pg_drop_replication_slot('{name}')") for name in slots]
        # One that is declared by name may be somebody else's too.
        own = source.capture.publication is None
        traces += [
            Trace("publication", f"publication {name}", f"DROP PUBLICATION {double_quote(name)}", ours=own or name != publication)
            for name in publications
        ]
        schema = names.SIGNAL_SCHEMA
        traces += [
            Trace("tables", f"table {schema}.{name}", f"DROP TABLE {double_quote(schema, name)}")
            for name in tables
            if name in within
        ]
        if within and set(within) <= {*tables, None}:
            traces.append(Trace("tables", f"schema {schema}", f"DROP SCHEMA {double_quote(schema)}"))
        return traces

    def drop(self, trace: Trace) -> bool:
        """By its statement; a slot as soon as nobody reads it any more."""
        from psycopg import errors

        until = time.monotonic() + _SLOT_DEADLINE_SECONDS
        while True:
            try:
                return self._execute(trace.statement)
            except DatabaseError as error:
                if not isinstance(error.__cause__, errors.ObjectInUse) or time.monotonic() > until:
                    raise
                time.sleep(0.5)

    def _execute(self, statement: str) -> bool:
        from psycopg import errors

        gone = (errors.UndefinedObject, errors.UndefinedTable, errors.InvalidSchemaName)
        with self._database.connection() as connection:
            try:
                connection.execute(statement.encode())
            except gone:
                return True
            except (errors.InsufficientPrivilege, errors.DependentObjectsStillExist):
                return False
        return True


def postgresql_traces(source: CapturedSource) -> PostgresTraces:
    """Of the source's database."""
    return PostgresTraces(source, source.database)


def _column(connection: Any, query: str, value: Any) -> list[Any]:
    return [row[0] for row in connection.execute(query, [value]).fetchall()]
