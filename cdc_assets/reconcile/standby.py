"""A standby's rows compared with silver, so that the scans do not touch the primary.

A standby cannot tell an exact moment: `pg_current_snapshot()` lists no running transactions there (they are kept as
subtransactions, which it does not show), and its log takes no marker. So the two-step method reads it, and a marker on the
primary says how far it must have replayed: in a round, the second look at a suspect sees all that the lake was brought to.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_assets import names, settings
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.quantity import quantity
from cdc_assets.reconcile import compare as exact
from cdc_assets.reconcile import two_step
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.registry.models import Database, Source, Table
from cdc_assets.resources.databases.cuts import RowsNow
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import LogPosition, carry_to_lake

if TYPE_CHECKING:
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice

STATEMENT_TIMEOUT = 600.0
_POLL_SECONDS = 0.2


def compare(
    platform: Platform,
    source: Source,
    tables: Sequence[Table],
    *,
    standby: str | None = None,
    slices: Mapping[str, Slice] | None = None,
    timeout: float = 300.0,
) -> dict[str, TableResult]:
    """The two-step method with the source's own database, or with its standby at `host:port`.

    Raises:
        DatabaseError: the standby is not reached, is none, or the source is no PostgreSQL.
    """
    primary = platform.database(source)
    where = primary if standby is None else standby_of(source, standby)

    def carry() -> LogPosition:
        position = carry_to_lake(platform, source, deadline=timeout)
        if isinstance(where, PostgresDatabase) and standby is not None:
            await_replay(where, position.lsn, timeout)
        return position

    catalogue = primary.tables([t.id for t in tables])
    asked = two_step.TwoStepSource(RowsNow(where, STATEMENT_TIMEOUT), carry, catalogue)
    return two_step.compare(platform, source, tables, asked, slices=slices)


def compare_as_declared(
    platform: Platform,
    source: Source,
    tables: Sequence[Table],
    *,
    slices: Mapping[str, Slice | TwoRanges] | None = None,
    timeout: float = 300.0,
) -> dict[str, TableResult]:
    """At an exact cut, or with the standby that the source declares; what stands in the way is a result as well."""
    declared = source.reconciliation.standby
    if declared is None:
        return exact.compare(platform, source, tables, slices=slices, timeout=timeout)
    from spark.reconcile.own_order import TwoRanges

    # Two ranges need a cut: none are chosen for a source with a standby (slices).
    shares = {name: part for name, part in (slices or {}).items() if not isinstance(part, TwoRanges)}
    try:
        return compare(platform, source, tables, standby=settings.resolve(declared), slices=shares, timeout=timeout)
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(source, table, str(error), method="two-step") for table in tables}


def standby_of(source: Source, place: str) -> PostgresDatabase:
    """The standby at `host:port`, reached with the source's own role.

    Raises:
        DatabaseError: it is not reached, or is no standby.
    """
    host, _, port = place.rpartition(":")
    if not (host and port.isdigit()) or not isinstance(source.database, Database):
        raise DatabaseError(f"standby {place!r} of source {source.name}: give host:port of a PostgreSQL standby")
    standby = PostgresDatabase(source.database.model_copy(update={"host": host, "port": int(port)}))
    with standby.connection() as connection:
        if not connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            raise DatabaseError(f"PostgreSQL at {standby.place} is no standby: compare with it without --standby")
    return standby


def await_replay(standby: PostgresDatabase, lsn: str, timeout: float) -> None:
    """Until the standby shows what the primary had committed when the marker at `lsn` was written.

    Raises:
        DatabaseError: it does not within `timeout` seconds.
    """
    until = time.monotonic() + timeout
    with standby.connection() as connection:
        while True:
            behind, at = connection.execute(
                "SELECT pg_wal_lsn_diff(%s::pg_lsn, pg_last_wal_replay_lsn())::bigint, pg_last_wal_replay_lsn()::text", [lsn]
            ).fetchone()
            if behind <= 0:
                return
            if time.monotonic() > until:
                raise DatabaseError(
                    f"the standby at {standby.place} has replayed up to {at}, {quantity(behind, 'byte')} short of {lsn}"
                )
            time.sleep(_POLL_SECONDS)
