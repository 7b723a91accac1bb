"""Asks a source, and runs what is safe of what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.incarnation.watch import Look, refusal, safely, verdict
from cdc_assets.preflight import topics
from cdc_assets.preflight.finding import Finding, Report, sorted_findings
from cdc_assets.preflight.sql_text import identifier
from cdc_assets.registry.models import Database, Source
from cdc_assets.resources.databases.mariadb import MariaDbDatabase

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

# A statement that waits for a lock holds up everybody behind it.
_LOCK_TIMEOUT = "SET lock_timeout = '3s'"


def preflight(platform: Platform, source: Source) -> Report:
    """All findings; a database that cannot be reached is one."""
    from cdc_assets.preflight import postgresql
    from cdc_assets.preflight.postgresql_facts import read_facts

    database = platform.database(source)
    if isinstance(database, MariaDbDatabase):
        return _of_mariadb(platform, database, source)
    try:
        offsets = platform.core_connect().offsets(names.connector_name(source))
        with database.connection() as connection:
            facts = read_facts(
                connection,
                slot=names.slot_name(source),
                publication=names.publication_name(source),
                tables=[table.id for table in source.tables],
                offsets=offsets,
            )
    except CdcAssetsError as error:
        return Report(source.name, database.place, (Finding("reachable", "fail", "server", str(error), "mend that first"),))
    retained = int(float((facts.slot or {}).get("retained_bytes") or 0))
    figures = {"slot_retained_bytes": retained} if facts.slot else {}
    if facts.slot and facts.slot.get("safe_wal_size") is not None:
        figures["slot_safe_wal_bytes"] = int(facts.slot["safe_wal_size"])
    found = [
        *postgresql.findings(source, facts),
        _incarnation(source, safely(platform, source)),
        *topics.of_platform(platform, source),
    ]
    return Report(source.name, database.place, sorted_findings(found), figures)


def _incarnation(source: Source, found: Look | CdcAssetsError) -> Finding:
    if isinstance(found, CdcAssetsError):
        return Finding("incarnation", "warn", "server", f"cannot be told: {found}", "mend that first")
    if found.verdict.kind == "other":
        return Finding("incarnation", "fail", "server", refusal(source, found.verdict), f"cdc repair source {source.name}")
    if not found.witnessed:
        message = "takes no witness from us: once restored and written to for long enough, it cannot be told from what it was"
        database = source.database.dbname if isinstance(source.database, Database) else ""
        mend = f"GRANT CREATE ON DATABASE {identifier(database)} TO the role of the connector"
        return Finding("incarnation", "warn", "server", message, mend)
    said = found.verdict.reason or f"is the one that was read: {found.facts.system}, timeline {found.facts.timeline}"
    return Finding("incarnation", "ok", "server", said)


def _of_mariadb(platform: Platform, database: MariaDbDatabase, source: Source) -> Report:
    from cdc_assets.preflight import mysql

    tables = [table.id for table in source.tables]
    try:
        answers = database.answers(mysql.QUERIES, sorted({table.schema for table in tables}))
    except CdcAssetsError as error:
        return Report(source.name, database.place, (Finding("reachable", "fail", "server", str(error), "mend that first"),))
    found = [
        *mysql.findings(tables, answers, user=database.user),
        _binlog(platform, source),
        *topics.of_platform(platform, source),
    ]
    return Report(source.name, database.place, sorted_findings(found))


def _binlog(platform: Platform, source: Source) -> Finding:
    try:
        found = verdict(platform, source)
    except CdcAssetsError as error:
        return Finding("incarnation", "warn", "server", f"cannot be told: {error}", "mend that first")
    if found.kind == "other":
        return Finding("incarnation", "fail", "server", refusal(source, found), f"cdc repair source {source.name}")
    return Finding("incarnation", "ok", "server", "its binlog holds what has not been read")


def fix(platform: Platform, source: Source, report: Report) -> list[tuple[Finding, str]]:
    """Run every safe statement of what does not hold; each with `done`, or why not."""
    import psycopg

    done: list[tuple[Finding, str]] = []
    database = platform.database(source)
    if isinstance(database, MariaDbDatabase):
        return done  # what mends a server is its administrator's to run
    with database.connection() as connection:
        connection.execute(_LOCK_TIMEOUT)
        for finding in report.findings:
            if finding.level == "ok" or not finding.safe or finding.mend is None:
                continue
            try:
                connection.execute(finding.mend.encode())
                done.append((finding, "done"))
            except psycopg.Error as error:
                done.append((finding, (str(error).strip().splitlines() or ["refused"])[0]))
    return done
