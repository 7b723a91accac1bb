"""A second slot of a PostgreSQL: it keeps the log from where a backup ends, and moves on with the backup.

A slot keeps the log until it is moved, also while nobody reads it; a copy of it begins at the same place.
https://www.postgresql.org/docs/18/functions-admin.html#FUNCTIONS-REPLICATION
"""

from __future__ import annotations

from cdc_assets.resources.databases.postgresql_capture import PostgresCapture

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
            found = connection.execute(_PLACE, [slot]).fetchone()
        return int(found[0]) if found and found[0] is not None else None

    def copy_slot(self, original: str, copy: str) -> None:
        """Let `copy` be a slot at the place of `original`, whatever was called so before.

        Raises:
            DatabaseError: somebody reads from the slot that was called so, or the role may not.
        """
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
