"""What PostgreSQL itself has counted of its tables' changes: the source's own witness that there was something to send.

The counters hold rolled back changes too, and are written when a transaction has ended: whatever they show was decided
before they were read.
https://www.postgresql.org/docs/18/monitoring-stats.html#MONITORING-PG-STAT-ALL-TABLES-VIEW
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.postgresql import PARTS, own_rows
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture

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
            place = own_rows(connection, table).replace("%", "%%")
            newer = f"SELECT EXISTS (SELECT FROM {place} WHERE age(xmin) <= %s)".encode()
            connection.execute(f"SET statement_timeout = {int(seconds * 1000)}".encode())
            now = connection.execute(_DATABASE).fetchone()[1]
            try:
                return bool(connection.execute(newer, [max(0, now - next_xid)]).fetchone()[0])
            except psycopg.errors.QueryCanceled:
                return None
