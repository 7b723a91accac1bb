"""Asks a source: its database by its kind, and the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.look import IdentityLook, look, refusal, verdict
from cdc_assets.preflight import by_driver, topics
from cdc_assets.preflight.capturable import inexact_columns
from cdc_assets.preflight.column_names import column_name_findings
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.preflight.signal_table import signal_finding
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource, Database, Source
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from spark.delta.identifiers import double_quote

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

# Connect is asked for minutes elsewhere; here a person waits.
_CONNECT_SECONDS = 5.0


def preflight(platform: Platform, source: CapturedSource) -> Report:
    """All findings; a database that cannot be reached is one.

    Raises:
        DatabaseError: there is no such kind of source.
    """
    if isinstance(source, UnaskedSource):
        found = [*by_driver.findings(source), *topics.of_platform(platform, source)]
        return Report(source.name, _place_or_unknown(lambda: by_driver.place(source)), sort_findings(found))
    if not isinstance(source, Source):
        raise DatabaseError(f"source {source.name}: kind {source.database.kind} is not known here")
    database = platform.database(source)
    offsets, away = _ask_connect(platform, source)
    try:
        if isinstance(database, MariaDbDatabase):
            return _of_mariadb(platform, database, source, away)
        return _of_postgresql(platform, database, source, offsets, away)
    except CdcAssetsError as error:
        found = [Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")]
        return Report(source.name, _place_or_unknown(lambda: database.place), tuple(found))


def _place_or_unknown(place: Callable[[], str]) -> str:
    """Where the server is, as far as that is known: an address that is not set is in the findings."""
    try:
        return place()
    except CdcAssetsError:
        return "an unknown address"


def _ask_connect(platform: Platform, source: CapturedSource) -> tuple[list[Any], list[Finding]]:
    """The connector's offsets; or none, with the one finding that stands for all that only a running platform can tell.

    Before the first `cdc up` there is no platform, and the database alone is in question.
    """
    try:
        platform.core_kafka(), platform.lake_kafka()
        return platform.core_connect().within(_CONNECT_SECONDS).offsets(names.connector_name(source)), []
    except CdcAssetsError as error:
        message = f"are not asked, so what the connector has read, and its topics, are not looked at: {error}"
        return [], [Finding("topics", "warn", "Kafka and Connect", message, "./cdc up, or mend that, then cdc preflight")]


def _of_postgresql(
    platform: Platform, database: PostgresDatabase, source: Source, offsets: list[Any], away: list[Finding]
) -> Report:
    from cdc_assets.preflight import postgresql
    from cdc_assets.preflight.postgresql_facts import read_facts

    with database.connection() as connection:
        facts = read_facts(
            connection,
            slot=names.slot_name(source),
            publication=names.publication_name(source),
            tables=[table.id for table in source.tables],
            offsets=offsets,
        )
    retained = int(float((facts.slot or {}).get("retained_bytes") or 0))
    figures = {"slot_retained_bytes": retained} if facts.slot else {}
    if facts.slot and facts.slot.get("safe_wal_size") is not None:
        figures["slot_safe_wal_bytes"] = int(facts.slot["safe_wal_size"])

    def examine() -> tuple[Verdict, Finding]:
        found = look(platform, source)
        return found.verdict, _witness_finding(source, found)

    running = away or [_incarnation(source, examine), *topics.of_platform(platform, source)]
    signals = signal_finding(source, database, may_create=bool(facts.server["create"]))
    catalogue = database.tables([table.id for table in source.tables])
    found = [*postgresql.findings(source, facts), *_inexact(database, source, catalogue), signals, *running]
    return Report(source.name, database.place, sort_findings(found), figures)


def _inexact(database: SourceDatabase, source: Source, found: Mapping[TableId, CatalogueTable]) -> Iterator[Finding]:
    """What `cdc apply` would refuse of the columns, but for the days that only a look at every row tells."""
    for table in source.tables:
        if table.id in found:
            for sentence in inexact_columns(database, source, table, found[table.id], snapshot=False):
                yield Finding("columns", "fail", str(table.id), sentence)


def _of_mariadb(platform: Platform, database: MariaDbDatabase, source: Source, away: list[Finding]) -> Report:
    from cdc_assets.preflight import mysql

    tables = [table.id for table in source.tables]
    answers = database.answers(mysql.QUERIES, sorted({table.schema for table in tables}))
    # A user who may only read sees no referential_constraints there, but every table's definition.
    answers["cascades"] = [row for table, text in database.definitions(tables).items() for row in mysql.cascades_of(table, text)]
    keyed = [table.id for table in source.tables if table.keys]

    def examine() -> tuple[Verdict, Finding]:
        held = Finding("incarnation", "ok", "server", "its binlog holds what has not been read")
        return verdict(platform, source), held

    running = away or [_incarnation(source, examine), *topics.of_platform(platform, source)]
    signals = signal_finding(source, database, may_create=None)
    catalogue = database.tables(tables)
    named = [(table, [column.name for column in catalogue[table.id].columns]) for table in source.tables if table.id in catalogue]
    columns = [
        *(finding for table, columns in named for finding in column_name_findings(table, columns)),
        *_inexact(database, source, catalogue),
    ]
    found = [*mysql.findings(tables, answers, user=database.user, keyed=keyed), *columns, signals, *running]
    return Report(source.name, database.place, sort_findings(found))


def _incarnation(source: Source, looked: Callable[[], tuple[Verdict, Finding]]) -> Finding:
    """What is not the server that was read fails; else the finding that came with the look."""
    try:
        found, finding = looked()
    except CdcAssetsError as error:
        return Finding("incarnation", "warn", "server", f"cannot be told: {error}", "mend that first")
    if found.kind == "other":
        return Finding("incarnation", "fail", "server", refusal(source, found), f"cdc repair source {source.name}")
    return finding


def _witness_finding(source: Source, found: IdentityLook) -> Finding:
    if not found.witnessed:
        message = "takes no witness from us: once restored and written to for long enough, it cannot be told from what it was"
        database = source.database.dbname if isinstance(source.database, Database) else ""
        mend = f"GRANT CREATE ON DATABASE {double_quote(database)} TO the role of the connector"
        return Finding("incarnation", "warn", "server", message, mend)
    said = found.verdict.reason or f"is the one that was read: {found.facts.system}, timeline {found.facts.timeline}"
    return Finding("incarnation", "ok", "server", said)
