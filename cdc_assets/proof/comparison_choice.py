"""Rows of any source compared with silver by the way that its kind allows: at an exact cut where its log tells one, on a
standby so that scans do not touch the primary, under MySQL's global read lock, in two steps elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

from cdc_assets.capture.incarnations.server_verdict import refusal, verdict
from cdc_assets.capture.log_position import LogPosition, carry_to_lake
from cdc_assets.capture.source_columns import columns_as_declared, source_columns
from cdc_assets.clients.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.databases.source_cut import SourceRows
from cdc_assets.clients.kind_clients import open_rows
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import comparison_at_cut as exact
from cdc_assets.proof import two_step_comparison
from cdc_assets.proof.comparison_at_cut import WHOLE_TABLES, ComparisonScope
from cdc_assets.proof.comparison_result import TableResult, not_compared, with_causes
from cdc_assets.proof.unsent_changes import forget_equal_tables
from cdc_assets.registry import names, settings
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import CdcAssetsError, CutRefusedError, DatabaseError, RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import BaseSource, Source, UnaskedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.row_text import RowText, Slice

STATEMENT_TIMEOUT = 600.0


@dataclass(frozen=True)
class RowsNow:
    """A database's rows as they are: every answer is of a moment of its own. It may be a standby's."""

    database: SourceDatabase
    statement_timeout: float

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket."""
        with self._open() as rows:
            return rows.digest(table, row_text, part)

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets of a slice."""
        with self._open() as rows:
            return rows.key_hashes(table, row_text, buckets, part)

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        with self._open() as rows:
            return rows.texts(table, row_text, keys)

    def unwritten(self, table: CatalogueTable) -> dict[str, str]:
        """None: the database writes them itself."""
        return {}

    def key_filter(self, table: TableId) -> None:
        """None: the database tells of all keys."""

    def unread(self, table: TableId) -> int:
        """Rows are read, or the statement fails."""
        return 0

    def _open(self) -> AbstractContextManager[SourceRows]:
        return open_rows(self.database, statement_timeout=self.statement_timeout)


class StandbyServer(Protocol):
    """A server that replays the source's log."""

    @property
    def database(self) -> SourceDatabase:
        """Opened for its rows."""

    def await_replay(self, lsn: str, timeout: float) -> None:
        """Until it shows what the primary had committed at this place; `timeout` in seconds."""


def compare_on_standby(
    chain: Chain[Source], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """The two-step method with the source's own database, or with its standby at `host:port`.

    A standby cannot tell an exact moment: `pg_current_snapshot()` lists no running transactions there (they are kept as
    subtransactions, which it does not show), and its log takes no marker. So the two-step method reads it, and a marker on the
    primary says how far it must have replayed: in a round, the second look at a suspect sees all that the lake was brought to.

    Raises:
        DatabaseError: the standby is not reached, is none, or the source is no PostgreSQL.
    """
    primary = chain.platform.database(chain.source)
    beside = None if scope.method.standby is None else open_standby(chain.source, scope.method.standby)
    where = beside.database if beside else primary

    def carry() -> LogPosition:
        position = carry_to_lake(chain, deadline=scope.timeout)
        if beside:
            beside.await_replay(position.lsn, scope.timeout)
        return position

    catalogue = primary.tables([t.id for t in tables])
    standby_source = two_step_comparison.TwoStepSource(RowsNow(where, STATEMENT_TIMEOUT), carry, catalogue, scope.method.view)
    results = two_step_comparison.compare_in_two_steps(chain, tables, standby_source, slices=scope.shares)
    return with_causes(chain, catalogue, results)


def compare_as_declared(
    chain: Chain[Source], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """At an exact cut, or with the standby that the source declares; what stands in the way is a result as well."""
    declared = chain.source.reconciliation.standby
    if declared is None:
        results = exact.compare(chain, tables, scope)
        forget_equal_tables(chain.source, tables, results)
        return results
    try:
        beside = replace(scope.method, standby=settings.resolve(declared))
        return compare_on_standby(chain, tables, replace(scope, method=beside))
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(chain.source, table, str(error), method="two-step") for table in tables}


def open_standby(source: Source, place: str) -> StandbyServer:
    """The standby at `host:port`. Raises DatabaseError: the source's kind has none, or it is not reached."""
    from cdc_assets.proof.kind_proof import proof_of

    opener = proof_of(source).standby
    if opener is None:
        raise DatabaseError(f"standby {place!r} of source {source.name}: give host:port of a PostgreSQL standby")
    return opener(source, place)


_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class PostgresStandby:
    """A hot standby of PostgreSQL (`StandbyServer`)."""

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


def compare_locked(
    chain: Chain[UnaskedSource], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    A table whose declared columns are of other types than the database's (a length of time as a bigint) is compared in pages
    too: the server's SQL would write other texts than silver has (two_step_comparison).
    """
    if scope.method.two_step or not exact.can_reconcile(chain.source):
        return two_step_comparison.compare_paged(chain, tables, scope)
    try:
        if (found_other := verdict(chain)).kind == "other":
            raise RefusalError(refusal(chain.source, found_other))
        otherwise = _other_types(chain, tables)
        results = exact.compare_at_cut(chain, [t for t in tables if t.name not in otherwise], scope)
    except CutRefusedError as error:
        if chain.source.reconciliation.marker:
            return two_step_comparison.compare_paged(chain, tables, scope)
        reason = (
            f"{error}; or declare a marker table, by which rows are compared in pages (reconciliation: {{marker: schema.table}})"
        )
        return {names.table_name(table): not_compared(chain.source, table, reason) for table in tables}
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(chain.source, table, str(error)) for table in tables}
    in_pages = [t for t in tables if t.name in otherwise]
    return results | (two_step_comparison.compare_paged(chain, in_pages, scope) if in_pages else {})


def _other_types(chain: Chain[UnaskedSource], tables: Sequence[Table]) -> set[str]:
    """The tables with a column of which the database's type and the declared one are not written alike."""
    from spark.values.column_forms import fits

    written = cast(MySqlDatabase, chain.platform.database(chain.source)).tables_in_own_types([table.id for table in tables])
    declared = columns_as_declared(chain.source, written)
    others: set[str] = set()
    for table in tables:
        if table.id not in written or not table.declared_columns:
            continue
        types = {column.name: column.type for column in written[table.id].columns}
        columns = [c for c in source_columns(chain.source, table, declared[table.id]) if c.name in types]
        if not all(fits(types[c.name], c) for c in columns):
            others.add(table.name)
    return others


def compare_rows(
    chain: Chain[BaseSource], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    Raises:
        DatabaseError: there is no such kind of source, or the standby is none.
    """
    from cdc_assets.proof.kind_proof import proof_of

    if chain.source.asked and (scope.method.two_step or scope.method.standby):
        return compare_on_standby(Chain(chain.platform, chain.source.asked), tables, scope)
    compare = proof_of(chain.source).compare
    if compare is None:
        raise DatabaseError(f"source {chain.source.name}: nobody can be asked for its rows")
    results = compare(chain, tables, scope)
    if not scope.method.view:
        forget_equal_tables(chain.source, tables, results)
    return results
