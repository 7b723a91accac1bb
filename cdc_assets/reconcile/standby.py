"""A standby's rows compared with silver, so that the scans do not touch the primary.

A standby cannot tell an exact moment: `pg_current_snapshot()` lists no running transactions there (they are kept as
subtransactions, which it does not show), and its log takes no marker. So the two-step method reads it, and a marker on the
primary says how far it must have replayed: in a round, the second look at a suspect sees all that the lake was brought to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cdc_assets import names, settings
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.reconcile import compare as exact
from cdc_assets.reconcile import two_step
from cdc_assets.reconcile.causes import with_causes
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.reconcile.unsent import forget_equal_tables
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import Source
from cdc_assets.resources.databases.catalogue import SourceDatabase
from cdc_assets.resources.databases.cuts import RowsNow
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import LogPosition, carry_to_lake

STATEMENT_TIMEOUT = 600.0


class StandbyServer(Protocol):
    """A server that replays the source's log."""

    @property
    def database(self) -> SourceDatabase:
        """Opened for its rows."""

    def await_replay(self, lsn: str, timeout: float) -> None:
        """Until it shows what the primary had committed at this place; `timeout` in seconds."""


def compare(
    platform: Platform, source: Source, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """The two-step method with the source's own database, or with its standby at `host:port`.

    Raises:
        DatabaseError: the standby is not reached, is none, or the source is no PostgreSQL.
    """
    primary = platform.database(source)
    beside = None if scope.method.standby is None else open_standby(source, scope.method.standby)
    where = beside.database if beside else primary

    def carry() -> LogPosition:
        position = carry_to_lake(platform, source, deadline=scope.timeout)
        if beside:
            beside.await_replay(position.lsn, scope.timeout)
        return position

    catalogue = primary.tables([t.id for t in tables])
    asked = two_step.TwoStepSource(RowsNow(where, STATEMENT_TIMEOUT), carry, catalogue, scope.method.view)
    found = two_step.compare(platform, source, tables, asked, slices=scope.shares)
    return with_causes(platform, source, catalogue, found)


def compare_as_declared(
    platform: Platform, source: Source, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """At an exact cut, or with the standby that the source declares; what stands in the way is a result as well."""
    declared = source.reconciliation.standby
    if declared is None:
        found = exact.compare(platform, source, tables, scope)
        forget_equal_tables(source, tables, found)
        return found
    try:
        beside = replace(scope.method, standby=settings.resolve(declared))
        return compare(platform, source, tables, replace(scope, method=beside))
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(source, table, str(error), method="two-step") for table in tables}


def open_standby(source: Source, place: str) -> StandbyServer:
    """The standby at `host:port`.

    Raises:
        DatabaseError: the source's kind has none, or it is not reached.
    """
    part = kind_of(source).standby
    if part is None:
        raise DatabaseError(f"standby {place!r} of source {source.name}: give host:port of a PostgreSQL standby")
    standby: StandbyServer = part.load()(source, place)
    return standby
