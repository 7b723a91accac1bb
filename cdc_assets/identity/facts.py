"""What tells one incarnation of a PostgreSQL server from another: identifier, timeline and its history, end of the log, slot,
and a witness: a row of ours that is written anew at each look, so that a server restored to a moment before shows an older one.

Positions of the log alone cannot tell: once a restored server has written more than was lost, its log is as long as before.
https://www.postgresql.org/docs/18/protocol-replication.html (IDENTIFY_SYSTEM, TIMELINE_HISTORY: for any role that may replicate)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from spark.delta.identifiers import double_quote

_SLOT = """
SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s AND slot_type = 'logical'
"""


# For a role that may not replicate, or behind a pooler: without the timelines before this one.
_BY_SQL = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
  CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END,
  pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint
"""


@dataclass(frozen=True)
class ServerFacts:
    """A server as it is now. Log positions are numbers of bytes.

    `wal` is the end of its log, `forks` where each earlier timeline was left, `slot` the row of pg_replication_slots (None: there
    is none). `witness` is the row that the last look wrote; None: there is none; `writable`: a look may write one.
    """

    system: str
    timeline: int
    wal: int
    forks: Mapping[int, int] = field(default_factory=dict)
    slot: Mapping[str, Any] | None = None
    witness: str | None = None
    writable: bool = True


class IncarnationDatabase(PostgresDatabase):
    """A source's database, asked who it is."""

    def facts(self, slot: str, witness: TableId) -> ServerFacts:
        """All of them; nothing is changed.

        Raises:
            DatabaseError: the server cannot be asked.
        """
        with self.connection() as connection:
            try:
                system, timeline, wal, forks = self._identify()
            except DatabaseError:
                (system, timeline, wal), forks = connection.execute(_BY_SQL).fetchone(), {}
            found = connection.execute(_SLOT, [slot]).fetchone()
            standby = connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]
            told = _token(connection, witness)
        return ServerFacts(system, timeline, wal, forks, found[0] if found else None, told, writable=not standby)

    def write_witness(self, table: TableId, token: str) -> bool:
        """Let the row be this one; False where the role may not make the table."""
        from psycopg import errors, sql

        name = sql.Identifier(*table)
        with self.connection() as connection:
            try:
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema)))
                connection.execute(
                    sql.SQL("CREATE TABLE IF NOT EXISTS {} (id int PRIMARY KEY, token text NOT NULL)").format(name)
                )
            except errors.InsufficientPrivilege:
                return False
            statement = "INSERT INTO {} VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET token = excluded.token"
            connection.execute(sql.SQL(statement).format(name), [token])
        return True

    def _identify(self) -> tuple[str, int, int, dict[int, int]]:
        import psycopg
        from psycopg import pq

        conninfo = psycopg.conninfo.make_conninfo(**self._login(), replication="database")
        # psycopg's own connection speaks the extended protocol, which a walsender refuses.
        raw = pq.PGconn.connect(conninfo.encode())
        try:
            if raw.status != pq.ConnStatus.OK:
                raise DatabaseError(f"PostgreSQL at {self.place}: {_first(raw.error_message)}")

            def ask(command: str) -> list[bytes | None]:
                answer = raw.exec_(command.encode())
                if answer.status != pq.ExecStatus.TUPLES_OK:
                    raise DatabaseError(f"PostgreSQL at {self.place}: {command}: {_first(answer.error_message)}")
                return [answer.get_value(0, i) for i in range(answer.nfields)]

            system, timeline, wal = (bytes(value or b"").decode() for value in ask("IDENTIFY_SYSTEM")[:3])
            history = ask(f"TIMELINE_HISTORY {timeline}")[1] if int(timeline) > 1 else b""
            return system, int(timeline), lsn_bytes(wal), forks(bytes(history or b"").decode())
        finally:
            raw.finish()


def _token(connection: Any, table: TableId) -> str | None:
    from psycopg import sql

    if connection.execute("SELECT to_regclass(%s)", [double_quote(*table)]).fetchone()[0] is None:
        return None
    row = connection.execute(sql.SQL("SELECT token FROM {} WHERE id = 1").format(sql.Identifier(*table))).fetchone()
    return row[0] if row else None


def forks(history: str) -> dict[int, int]:
    """From a timeline's history file: per earlier timeline the position at which it was left."""
    found = re.findall(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", history, re.MULTILINE)
    return {int(timeline): lsn_bytes(lsn) for timeline, lsn in found}


def lsn_bytes(text: str) -> int:
    """`16/B374D848` as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(position: int) -> str:
    """As PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _first(message: bytes) -> str:
    return (message.decode(errors="replace").strip().splitlines() or ["no answer"])[0]
