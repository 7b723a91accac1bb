"""What capture needs of a PostgreSQL besides its catalogue: publication, slots, signal table, transactions, counted changes.

A change is decoded only when its table was in the publication at the moment of writing. So a transaction that wrote to
a table before the table was added, and commits afterwards, is in no event: a snapshot must be taken after its end.
https://www.postgresql.org/docs/18/logical-replication-publication.html

The publication is read as the view pg_publication_tables says it, without its locks. Since version 15 the view opens each table
(pg_get_publication_tables in src/backend/catalog/pg_publication.c). It waits as long as a TRUNCATE or an ALTER TABLE is under
way there: for hours, where a large table is rewritten. The catalogue's own rows do not.
https://www.postgresql.org/docs/18/view-pg-publication-tables.html

A second slot keeps the log from where a backup ends, and moves on with the backup. A slot keeps the log until it is moved, also
while nobody reads it; a copy of it begins at the same place.
https://www.postgresql.org/docs/18/functions-admin.html#FUNCTIONS-REPLICATION

The server's own counters are the witness that there was something to send. They hold rolled back changes too, and are written
when a transaction has ended: whatever they show was decided before they were read.
https://www.postgresql.org/docs/18/monitoring-stats.html#MONITORING-PG-STAT-ALL-TABLES-VIEW
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.clients.databases.postgresql import PARTS, PostgresDatabase, is_there, own_rows
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import double_quote

# FOR TABLE and FOR ALL TABLES, FOR TABLES IN SCHEMA; what may be published is is_publishable_class's rule. `below` also has all
# that the partitioned ones among them are parted into. By the root, what has its parent in it is not named; else only leaves are.
_LISTED = """
WITH RECURSIVE listed AS (
  SELECT p.oid AS publication, r.prrelid AS table FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
  UNION
  SELECT p.oid, c.oid FROM pg_publication p JOIN pg_class c ON p.puballtables {in_schema}
  WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
    AND c.relnamespace <> ALL (ARRAY['pg_catalog'::regnamespace, 'information_schema'::regnamespace])
), below AS (
  SELECT publication, listed.table FROM listed
  UNION
  SELECT publication, h.inhrelid FROM below JOIN pg_inherits h ON h.inhparent = below.table
    JOIN pg_class parent ON parent.oid = h.inhparent AND parent.relkind = 'p'
)
SELECT n.nspname, c.relname FROM pg_publication p JOIN below ON below.publication = p.oid
  JOIN pg_class c ON c.oid = below.table JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %s AND CASE WHEN p.pubviaroot
  THEN NOT (c.relispartition AND EXISTS (SELECT FROM pg_inherits h JOIN below parent ON parent.table = h.inhparent
                                         WHERE h.inhrelid = c.oid AND parent.publication = p.oid))
  ELSE c.relkind = 'r' END
"""
# https://www.postgresql.org/docs/15/release-15.html: only then are there publications of whole schemas.
_IN_SCHEMA = "OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"


def read_publication(connection: Any, publication: str) -> set[TableId]:
    """The tables under whose names a publication sends changes; empty where there is none."""
    in_schema = _IN_SCHEMA if connection.info.server_version >= 150_000 else ""
    rows = connection.execute(_LISTED.format(in_schema=in_schema).encode(), [publication]).fetchall()
    return {TableId(*row) for row in rows}


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
        Raises DatabaseError: the publication is another role's."""
        from psycopg import sql

        tables = self.tables_by_partitions(publication, ids)
        if tables:
            statement = sql.SQL("ALTER PUBLICATION {} SET (publish_via_partition_root = true)")
            with self.connection() as connection:
                connection.execute(statement.format(sql.Identifier(publication)))
        return tables

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
        Raises DatabaseError: the role may not; names the statements for somebody who may."""
        from psycopg import errors

        with self.connection() as connection:
            if is_there(connection, table, self.place):
                return
            make, grant = _signal_statements(table, connection.info.user)
            try:
                for statement in make:
                    connection.execute(statement)
            except errors.InsufficientPrivilege as error:
                statements = "; ".join(statement.as_string(connection) for statement in (*make, grant))
                reason = str(error).strip().splitlines()[0]
                raise DatabaseError(f"PostgreSQL at {self.place}: {reason}; let somebody who may run: {statements}") from error

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
        Raises DatabaseError: the condition is no single condition on the table's columns, or the role may not read it."""
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
            row = connection.execute(query, [slot]).fetchone()
        return str(row[0]) if row else ""

    def log_end(self) -> int:
        """Where the next record of its log will be, as a number of bytes."""
        with self.connection() as connection:
            return int(connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0])

    def drop_slot(self, slot: str) -> bool:
        """Drop a replication slot; whether there was one. Raises DatabaseError: while something still reads from it."""
        with self.connection() as connection:
            row = connection.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
            if row is None:
                return False
            if row[0] is not None:
                raise DatabaseError(f"slot {slot} at {self.place} is in use by process {row[0]}; stop its connector first")
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


_PLACE = """
SELECT pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint FROM pg_replication_slots
WHERE slot_name = %s AND plugin = 'pgoutput' AND database = current_database() AND NOT temporary
  AND coalesce(wal_status, '') <> 'lost' AND restart_lsn IS NOT NULL
"""


def slot_of_kept_log(slot: str) -> str:
    """What the slot that keeps the log for a backup is called, beside the connector's (`backup.keep_log`)."""
    return f"{slot[: 63 - len('_backup')]}_backup"


class PostgresSlots(PostgresCapture):
    """Slots by name. Places are numbers of bytes of the log."""

    def slot_place(self, slot: str) -> int | None:
        """From where the server still has what the slot would send; None: there is no such slot, or its log is lost."""
        with self.connection() as connection:
            row = connection.execute(_PLACE, [slot]).fetchone()
        return int(row[0]) if row and row[0] is not None else None

    def copy_slot(self, original: str, copy: str) -> None:
        """Let `copy` be a slot at the place of `original`, whatever was called so before.
        Raises DatabaseError: somebody reads from the slot that was called so, or the role may not."""
        self.drop_slot(copy)
        with self.connection() as connection:
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [original, copy])

    def advance_slot(self, slot: str, place: int) -> None:
        """Let the log before the place go, where the slot is not there yet."""
        statement = (
            "SELECT pg_replication_slot_advance(slot_name, '0/0'::pg_lsn + %s::numeric) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + %s::numeric"
        )
        with self.connection() as connection:
            connection.execute(statement, [place, slot, place])


_COUNTERS = f"""
SELECT wanted.s, wanted.t, sum(n_tup_ins)::bigint, sum(n_tup_upd)::bigint, sum(n_tup_del)::bigint, sum(n_live_tup)::bigint,
       sum(vacuum_count + autovacuum_count + analyze_count + autoanalyze_count)::bigint
FROM unnest(%s::text[], %s::text[]) AS wanted(s, t)
JOIN pg_namespace n ON n.nspname = wanted.s JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.t
CROSS JOIN LATERAL ({PARTS}) part
JOIN pg_stat_all_tables counted ON counted.relid = part.relid
GROUP BY 1, 2
"""
_DATABASE = """
SELECT xact_rollback, pg_snapshot_xmax(pg_current_snapshot())::text::bigint, coalesce(stats_reset::text, '')
FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(frozen=True)
class Counters:
    """Rows of one table inserted, updated, deleted since the counters began; rows that live, by the counters' estimate.

    `kept` counts vacuums and analyses: over one of them, `live` is corrected and no longer the sum of its changes.
    """

    inserted: int
    updated: int
    deleted: int
    live: int
    kept: int

    @property
    def changes(self) -> int:
        """All of them, rolled back ones included."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class Activity:
    """The tables' counters, and the database's: transactions rolled back, next transaction id, when it was reset.

    `lsn` (bytes) was read before them: a change that is written below it was made before.
    """

    tables: dict[TableId, Counters]
    rollbacks: int
    next_xid: int
    reset: str
    lsn: int

    def to_json(self) -> dict[str, Any]:
        """The activity as asset metadata keeps it, in JSON."""
        tables = {f"{i.schema}.{i.table}": asdict(c) for i, c in self.tables.items()}
        database = {"rollbacks": self.rollbacks, "next_xid": self.next_xid, "reset": self.reset, "lsn": self.lsn}
        return {"tables": tables, **database}


class PostgresActivity(PostgresCapture):
    """One source database, as it counts itself."""

    def activity(self, ids: Sequence[TableId]) -> Activity:
        """The counters as they are now; a table that does not exist is left out."""
        with self.connection() as connection:
            lsn = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]
            rows = connection.execute(_COUNTERS, [[i.schema for i in ids], [i.table for i in ids]]).fetchall()
            rollbacks, next_xid, reset = connection.execute(_DATABASE).fetchone()
        return Activity({TableId(r[0], r[1]): Counters(*r[2:]) for r in rows}, rollbacks, next_xid, reset, int(lsn))

    def has_changed_since(self, table: TableId, next_xid: int, *, seconds: float = 5.0) -> bool | None:
        """Whether the table holds a row of a transaction that began at `next_xid` or later; None: not told in time.

        One pass over the table at most, within `seconds`. Deleted rows are not seen.
        """
        import psycopg

        with self.connection() as connection:
            rows = own_rows(connection, table).replace("%", "%%")
            newer = f"SELECT EXISTS (SELECT FROM {rows} WHERE age(xmin) <= %s)".encode()
            connection.execute(f"SET statement_timeout = {int(seconds * 1000)}".encode())
            now = connection.execute(_DATABASE).fetchone()[1]
            try:
                return bool(connection.execute(newer, [max(0, now - next_xid)]).fetchone()[0])
            except psycopg.errors.QueryCanceled:
                return None
