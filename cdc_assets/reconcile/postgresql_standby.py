"""A standby of PostgreSQL: that it is one, and how far it has replayed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import expect
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import Source
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql import PostgresDatabase

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class PostgresStandby:
    """A hot standby of PostgreSQL (standby.StandbyServer)."""

    database: PostgresDatabase

    def await_replay(self, lsn: str, timeout: float) -> None:
        """Until the standby shows what the primary had committed when the marker at `lsn` was written.

        Raises:
            DatabaseError: it does not within `timeout` seconds.
        """
        until = time.monotonic() + timeout
        with self.database.connection() as connection:
            while True:
                behind, at = connection.execute(
                    "SELECT pg_wal_lsn_diff(%s::pg_lsn, pg_last_wal_replay_lsn())::bigint, pg_last_wal_replay_lsn()::text", [lsn]
                ).fetchone()
                if behind <= 0:
                    return
                if time.monotonic() > until:
                    raise DatabaseError(
                        f"the standby at {self.database.place} has replayed up to {at}, {quantity(behind, 'byte')} short of {lsn}"
                    )
                time.sleep(_POLL_SECONDS)


def standby_of(source: Source, place: str) -> PostgresStandby:
    """The standby at `host:port`, reached with the source's own role.

    Raises:
        DatabaseError: it is not reached, or is no standby.
    """
    host, _, port = place.rpartition(":")
    if not (host and port.isdigit()):
        raise DatabaseError(f"standby {place!r} of source {source.name}: give host:port of a PostgreSQL standby")
    own = expect(source.database, Database)
    standby = PostgresDatabase(own.model_copy(update={"host": host, "port": int(port)}))
    with standby.connection() as connection:
        if not connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            raise DatabaseError(f"PostgreSQL at {standby.place} is no standby: compare with it without --standby")
    return PostgresStandby(standby)
