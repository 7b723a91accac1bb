"""What PostgreSQL keeps for a source: slots, publications, and tables in the schema `cdc_assets`."""

from __future__ import annotations

import time
from typing import Any

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.registry.models import CapturedSource
from cdc_assets.removal.trace import Trace
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets.resources.databases.postgresql_kept_log import slot_of_kept_log
from spark.delta.identifiers import double_quote

_SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = ANY(%s) AND database = current_database() ORDER BY 1"
_PUBLICATIONS = "SELECT pubname FROM pg_publication WHERE pubname = ANY(%s) ORDER BY 1"
_IN_SCHEMA = """
SELECT c.relname FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind NOT IN ('i', 'I', 't')
WHERE n.nspname = %s ORDER BY 1
"""
# The process that reads for a stopped connector ends a moment later.
_SLOT_DEADLINE_SECONDS = 60.0


class PostgresTraces:
    """What is ours in a PostgreSQL (`trace.Traces`)."""

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
        found = [Trace("slot", f"replication slot {name}", f"SELECT pg_drop_replication_slot('{name}')") for name in slots]
        # One that is declared by name may be somebody else's too.
        own = source.capture.publication is None
        found += [
            Trace("publication", f"publication {name}", f"DROP PUBLICATION {double_quote(name)}", ours=own or name != publication)
            for name in publications
        ]
        schema = names.SIGNAL_SCHEMA
        found += [
            Trace("tables", f"table {schema}.{name}", f"DROP TABLE {double_quote(schema, name)}")
            for name in tables
            if name in within
        ]
        if within and set(within) <= {*tables, None}:
            found.append(Trace("tables", f"schema {schema}", f"DROP SCHEMA {double_quote(schema)}"))
        return found

    def drop(self, trace: Trace) -> bool:
        """By its statement; a slot as soon as nobody reads it any more."""
        until = time.monotonic() + _SLOT_DEADLINE_SECONDS
        while True:
            try:
                return self._execute(trace.statement)
            except DatabaseError as error:
                if not _is_in_use(error) or time.monotonic() > until:
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


def _is_in_use(error: DatabaseError) -> bool:
    from psycopg import errors

    return isinstance(error.__cause__, errors.ObjectInUse)
