"""What capture needs of a PostgreSQL source besides its catalogue: publication, slot, signal table, open transactions.

A change is decoded only when its table was in the publication at the moment of writing. So a transaction that wrote to
a table before the table was added, and commits afterwards, is in no event: a snapshot must be taken after its end.
https://www.postgresql.org/docs/18/logical-replication-publication.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.postgresql import PARTS, PostgresDatabase
from cdc_assets.resources.databases.postgresql_own_tables import is_there
from cdc_assets.resources.databases.postgresql_publication import read_publication
from spark.delta.identifiers import double_quote

_MISSING_RIGHTS = """
SELECT wanted.s, wanted.t, pg_get_userbyid(c.relowner)
FROM unnest(%s::text[], %s::text[]) AS wanted(s, t)
JOIN pg_namespace n ON n.nspname = wanted.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.t
WHERE NOT pg_has_role(current_user, c.relowner, 'USAGE')
"""
_BY_PARTITIONS = """
SELECT wanted.s, wanted.t FROM pg_publication p, unnest(%s::text[], %s::text[]) AS wanted(s, t)
JOIN pg_namespace n ON n.nspname = wanted.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.t
WHERE p.pubname = %s AND NOT p.pubviaroot AND c.relkind = 'p' ORDER BY 1, 2
"""
_WRITERS = f"""
SELECT DISTINCT l.virtualtransaction || '/' || coalesce(l.pid, 0), coalesce(
  'process ' || a.pid || ' (' || coalesce(nullif(a.application_name, ''), 'no name') || ', open since '
    || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS') || ')',
  'a prepared transaction (SELECT * FROM pg_prepared_xacts)')
FROM unnest(%s::text[], %s::text[]) AS wanted(s, t)
JOIN pg_namespace n ON n.nspname = wanted.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.t
CROSS JOIN LATERAL ({PARTS}) part
JOIN pg_locks l ON l.relation = part.relid AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
"""


class PostgresCapture(PostgresDatabase):
    """One source database, as its connector sees it."""

    def not_owned(self, ids: Sequence[TableId]) -> dict[TableId, str]:
        """Tables that the user cannot publish, with their owner: only an owner can."""
        with self.connection() as connection:
            rows = connection.execute(_MISSING_RIGHTS, [[i.schema for i in ids], [i.table for i in ids]]).fetchall()
        return {TableId(row[0], row[1]): row[2] for row in rows}

    def publication_tables(self, publication: str) -> set[TableId]:
        """The tables of a publication; empty where there is none."""
        with self.connection() as connection:
            return read_publication(connection, publication)

    def publish(self, publication: str, ids: Sequence[TableId]) -> None:
        """Add what is missing to the publication; writers are not held up (SHARE UPDATE EXCLUSIVE)."""
        self.publish_by_root(publication, ids)
        self._alter(publication, "ADD", sorted(set(ids) - self.publication_tables(publication)))

    def tables_by_partitions(self, publication: str, ids: Sequence[TableId]) -> list[TableId]:
        """The partitioned tables among these whose changes the publication sends under the names of their partitions."""
        with self.connection() as connection:
            rows = connection.execute(_BY_PARTITIONS, [[i.schema for i in ids], [i.table for i in ids], publication]).fetchall()
        return [TableId(*row) for row in rows]

    def publish_by_root(self, publication: str, ids: Sequence[TableId]) -> list[TableId]:
        """Let the publication send changes of partitioned tables under their own names; those for which it did not.

        Raises:
            DatabaseError: the publication is another role's.
        """
        from psycopg import sql

        found = self.tables_by_partitions(publication, ids)
        if found:
            statement = sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)")
            with self.connection() as connection:
                connection.execute(statement.format(sql.Identifier(publication)))
        return found

    def unpublish(self, publication: str, ids: Sequence[TableId]) -> None:
        """Take out of the publication what is in it."""
        self._alter(publication, "DROP", sorted(set(ids) & self.publication_tables(publication)))

    def _alter(self, publication: str, verb: str, ids: Sequence[TableId]) -> None:
        from psycopg import sql

        if not ids:
            return
        tables = sql.SQL(", ").join(sql.Identifier(*table) for table in ids)
        statement = sql.SQL("ALTER PUBLICATION {} {} TABLE {}").format(sql.Identifier(publication), sql.SQL(verb), tables)
        with self.connection() as connection:
            connection.execute(statement)

    def writers(self, ids: Sequence[TableId]) -> dict[str, str]:
        """Open transactions that have written to one of the tables, or may have, and who they are.

        A writer holds its lock on the table until it ends; the key is never used twice.
        """
        with self.connection() as connection:
            rows = connection.execute(_WRITERS, [[i.schema for i in ids], [i.table for i in ids]]).fetchall()
        return dict(rows)

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, in a schema of its own.

        Raises:
            DatabaseError: the role may not; names the statements for somebody who may.
        """
        from psycopg import errors

        with self.connection() as connection:
            if is_there(connection, table, self.place):
                return
            make, grant = _signal_statements(table, connection.info.user)
            try:
                for statement in make:
                    connection.execute(statement)
            except errors.InsufficientPrivilege as error:
                told = "; ".join(statement.as_string(connection) for statement in (*make, grant))
                reason = str(error).strip().splitlines()[0]
                raise DatabaseError(f"PostgreSQL at {self.place}: {reason}; let somebody who may run: {told}") from error

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal, once: the same id again changes nothing."""
        from psycopg import sql

        statement = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING").format(sql.Identifier(*table))
        with self.connection() as connection:
            is_there(connection, table, self.place)
            connection.execute(statement, [signal, kind, data])

    def clear_signals(self, table: TableId) -> int:
        """Remove signals and watermarks that have been read; the number of rows."""
        from psycopg import sql

        with self.connection() as connection:
            is_there(connection, table, self.place)
            return int(connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(*table))).rowcount)

    def plan_reading(self, table: TableId, condition: str) -> None:
        """Plan a reading of the rows that a condition (SQL) names; nothing is read.

        Raises:
            DatabaseError: the condition is no single condition on the table's columns, or the role may not read it.
        """
        with self.connection() as connection:
            connection.execute("SET default_transaction_read_only = on")
            # Whoever wrote the condition may name functions of extensions, as the connector's own connection finds them.
            connection.execute("RESET search_path")
            # In binary, psycopg sends it as one statement: the server then refuses a second one behind a semicolon.
            connection.execute(f"EXPLAIN SELECT 1 FROM {double_quote(*table)} WHERE {condition}".encode(), binary=True)

    def slot_process(self, slot: str) -> str:
        """The server process that reads the slot, and when it began: no two are the same; empty while nobody does."""
        query = (
            "SELECT concat(s.active_pid, ' ', a.backend_start) FROM pg_replication_slots s "
            "LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s AND s.active_pid IS NOT NULL"
        )
        with self.connection() as connection:
            found = connection.execute(query, [slot]).fetchone()
        return str(found[0]) if found else ""

    def log_end(self) -> int:
        """Where the next record of its log will be, as a number of bytes."""
        with self.connection() as connection:
            return int(connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0])

    def drop_slot(self, slot: str) -> bool:
        """Drop a replication slot; whether there was one.

        Raises:
            DatabaseError: while something still reads from it.
        """
        with self.connection() as connection:
            found = connection.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
            if found is None:
                return False
            if found[0] is not None:
                raise DatabaseError(f"slot {slot} at {self.place} is in use by process {found[0]}; stop its connector first")
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            return True

    def drop_publication(self, publication: str) -> None:
        """Drop a publication if there is one."""
        from psycopg import sql

        with self.connection() as connection:
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))


def _signal_statements(table: TableId, user: str) -> tuple[list[Any], Any]:
    """What makes the table that signals are written to, and what lets the role use it."""
    from psycopg import sql

    columns = "id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data text"
    parts = {"schema": sql.Identifier(table.schema), "table": sql.Identifier(*table), "role": sql.Identifier(user)}
    make = "CREATE SCHEMA IF NOT EXISTS {schema}", f"CREATE TABLE IF NOT EXISTS {{table}} ({columns})"
    grant = "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT, INSERT, DELETE ON {table} TO {role}"
    return [sql.SQL(text).format(**parts) for text in make], sql.SQL(grant).format(**parts)
