"""Where the rows of each kind of source stand, and how the lake is brought there: at a cut of its log, on a standby so that
scans do not touch the primary, page by page, or in its topics.

What is done with them is the same for all (cdc_assets.proof.comparison).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

from cdc_assets.capture.incarnations.server_verdict import refusal, verdict
from cdc_assets.capture.log_position import LogPosition, carry_to_lake
from cdc_assets.capture.named_log_position import carry_named, offsets_text
from cdc_assets.capture.source_columns import catalogue_of, catalogue_table, columns_as_declared, source_columns
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.databases.row_pages import PagedRows
from cdc_assets.clients.databases.source_cut import SourceRows
from cdc_assets.clients.kind_clients import clients_of, open_cut, open_reader, open_rows
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.topic_messages import READERS
from cdc_assets.clients.topic_rows import TopicRows
from cdc_assets.proof.compared_table import CUT, TWO_STEP, ComparisonRequest, SourceSide, Way
from cdc_assets.registry import names, settings
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import (
    CutRefusedError,
    DatabaseError,
    RefusalError,
)
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect, kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource, Source, TopicSource, UnaskedSource
from cdc_assets.registry.table_declaration import Table, TopicTable
from spark.errors import quantity

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.row_text import RowText, Slice

STATEMENT_TIMEOUT = 600.0


def can_reconcile(source: BaseSource) -> bool:
    """Whether the source's rows can be compared at an exact cut."""
    return clients_of(source.kind_name).cut is not None and (source.captured is None or source.captured.database.tells_snapshots)


def as_declared(chain: Chain[Source], tables: Sequence[Table], request: ComparisonRequest) -> list[Way]:
    """At an exact cut; in two steps where that is asked for, or on a standby, which the source may declare."""
    standby = request.standby
    if not standby and not request.two_step and (declared := chain.source.reconciliation.standby):
        standby = settings.resolve(declared)
    if standby or request.two_step:
        return [Way(tables, TWO_STEP, partial(rows_now, chain, tables, request, standby=standby))]
    return [Way(tables, CUT, partial(at_cut, chain, tables, request))]


@contextmanager
def at_cut(chain: Chain[CapturedSource], tables: Sequence[Table], request: ComparisonRequest) -> Iterator[SourceSide]:
    """One snapshot of the source, until the end of the block. A marker carries its moment into the lake meanwhile.

    Raises:
        DatabaseError: the server cannot tell an exact moment.
    """
    database = chain.platform.database(chain.source)
    with open_cut(database, statement_timeout=STATEMENT_TIMEOUT) as cut:
        catalogue = columns_as_declared(chain.source, database.tables([t.id for t in tables]))
        carry = partial(carry_to_lake, chain, deadline=request.timeout, database=database)
        yield SourceSide(cut, carry, catalogue, cut)


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

    def _open(self) -> AbstractContextManager[SourceRows]:
        return open_rows(self.database, statement_timeout=self.statement_timeout)


@contextmanager
def rows_now(
    chain: Chain[Source], tables: Sequence[Table], request: ComparisonRequest, *, standby: str | None = None
) -> Iterator[SourceSide]:
    """The source's own database, or its standby at `host:port`.

    A standby cannot tell an exact moment: `pg_current_snapshot()` lists no running transactions there (they are kept as
    subtransactions, which it does not show), and its log takes no marker. So a marker on the primary says how far it must have
    replayed: in a round, the second look at a suspect sees all that the lake was brought to.

    Raises:
        DatabaseError: the standby is not reached, is none, or the source is no PostgreSQL.
    """
    primary = chain.platform.database(chain.source)
    beside = None if standby is None else open_standby(chain.source, standby)

    def carry() -> LogPosition:
        position = carry_to_lake(chain, deadline=request.timeout)
        if beside:
            beside.await_replay(position.lsn, request.timeout)
        return position

    rows = RowsNow(beside.database if beside else primary, STATEMENT_TIMEOUT)
    yield SourceSide(rows, carry, primary.tables([t.id for t in tables]))


_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class PostgresStandby:
    """A hot standby of PostgreSQL, opened for its rows."""

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


def open_standby(source: Source, place: str) -> PostgresStandby:
    """The standby at `host:port`.

    Raises:
        DatabaseError: the source's kind has none, or it is not reached.
    """
    from cdc_assets.proof.kind_proof import proof_of

    opener = proof_of(source).standby
    if opener is None:
        raise DatabaseError(f"standby {place!r} of source {source.name}: give host:port of a PostgreSQL standby")
    return opener(source, place)


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


def by_lock_or_pages(chain: Chain[UnaskedSource], tables: Sequence[Table], request: ComparisonRequest) -> list[Way]:
    """Under MySQL's global read lock, or in pages where that is asked for or no lock is given.

    A table whose declared columns are of other types than the database's (a length of time as a bigint) is compared in pages
    too: the server's SQL would write other texts than silver has.
    """
    if request.two_step or not can_reconcile(chain.source):
        return by_pages(chain, tables, request)
    if (found_other := verdict(chain)).kind == "other":
        raise RefusalError(refusal(chain.source, found_other))
    otherwise = _other_types(chain, tables)
    own = [t for t in tables if t.name not in otherwise]
    in_pages = [t for t in tables if t.name in otherwise]
    locked = [Way(own, CUT, partial(_under_lock, chain, own, request))] if own else []
    return [*locked, *(by_pages(chain, in_pages, request) if in_pages else [])]


@contextmanager
def _under_lock(chain: Chain[UnaskedSource], tables: Sequence[Table], request: ComparisonRequest) -> Iterator[SourceSide]:
    with ExitStack() as stack:
        try:
            side = stack.enter_context(at_cut(chain, tables, request))
        except CutRefusedError as error:
            if not chain.source.reconciliation.marker:
                raise DatabaseError(
                    f"{error}; or declare a marker table, by which rows are compared in pages "
                    "(reconciliation: {marker: schema.table})"
                ) from error
            side = stack.enter_context(in_pages(chain, tables, request))
        yield side


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


def by_pages(chain: Chain[UnaskedSource], tables: Sequence[Table], request: ComparisonRequest) -> list[Way]:
    """Page by page, all tables."""
    return [Way(tables, TWO_STEP, partial(in_pages, chain, tables, request))]


@contextmanager
def in_pages(chain: Chain[UnaskedSource], tables: Sequence[Table], request: ComparisonRequest) -> Iterator[SourceSide]:
    """Everything that was committed before the mark lies before it in the log, and Debezium delivers in the order of commits.

    Once the connector is behind it, the tables' topics hold all of that. MySQL tells its place itself; elsewhere the mark is a
    row of ours in a table that is captured like one of the source (`reconciliation: {marker: schema.table}`), see
    named_log_position. Nothing is locked.

    Raises:
        DatabaseError: the source declares no marker table.
    """
    rows = PagedRows(open_reader(chain.source.database))
    if not kind_of(chain.source).tells_log and chain.source.reconciliation.marker is None:
        raise DatabaseError(
            f"source {chain.source.name} declares no marker table, so nobody knows when the lake has what its rows show: make "
            "one with a column id varchar(100) primary key, declare it (reconciliation: {marker: schema.table}), and cdc apply"
        )
    carry = partial(carry_named, chain, deadline=request.timeout)
    yield SourceSide(rows, carry, catalogue_of(chain, tables), unwritten=rows.unwritten)


def by_topic(chain: Chain[TopicSource], tables: Sequence[Table], request: ComparisonRequest) -> list[Way]:
    """From the topics, read again; a table whose records cannot be read a second time has a way that says so."""
    topic_tables = [t for t in tables if isinstance(t, TopicTable)]
    refused = {t.name: why for t in topic_tables if (why := _why_unread(t))}
    kept = [t for t in topic_tables if t.name not in refused]
    ways = [Way([t], TWO_STEP, partial(_refuse, refused[t.name])) for t in topic_tables if t.name in refused]
    return [*ways, Way(kept, TWO_STEP, partial(in_topics, chain, kept, request))] if kept else ways


def _refuse(why: str) -> NoReturn:
    raise DatabaseError(why)


@contextmanager
def in_topics(chain: Chain[TopicSource], tables: Sequence[TopicTable], request: ComparisonRequest) -> Iterator[SourceSide]:
    """The source's side is the topic, read again from its own records and folded in plain Python by another rule than silver's.

    The lake's side is silver, brought to what the topic held before. So what is shown is that mirror, bronze, fold and merge
    have lost and changed nothing of the topic; what the topic's writer left out nobody can tell from here.
    """
    cluster = chain.platform.core_kafka(chain.source.cluster) if names.is_mirrored(chain.source) else chain.platform.lake_kafka()
    registry = chain.source.schema_registry
    rows = TopicRows(cluster, {t.id: (names.topic(chain.source, t), t) for t in tables}, registry.address if registry else None)

    def carry() -> LogPosition:
        position = carry_to_lake(chain, deadline=request.timeout)
        return replace(position, lsn=offsets_text(position.offsets))

    catalogue = {t.id: catalogue_table(t) for t in tables}
    yield SourceSide(rows, carry, catalogue, None, rows.unwritten, rows.key_filter, rows.unread)


def _why_unread(table: TopicTable) -> str:
    if table.envelope not in READERS:
        return f"records in {table.envelope} are not read a second time; those that are: {', '.join(READERS)}"
    if table.partial:
        return f"{', '.join(table.partial)}: parts of rows are not put together a second time"
    if not table.keys:
        return f"{table.name} has no key: the two-step method reads keys again"
    return ""
