"""Asks a PostgreSQL: server, slot, publication, tables, and whether it is the one that was read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.postgresql import IdentityLook, look
from cdc_assets.kinds import expect
from cdc_assets.preflight import postgresql, topics
from cdc_assets.preflight.capturable import column_refusals
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.preflight.inspection import report_unreachable
from cdc_assets.preflight.postgresql_facts import read_facts
from cdc_assets.preflight.running import ask_connect, incarnation, patterns_taken_in, tables_to_read
from cdc_assets.preflight.signal_table import signal_finding
from cdc_assets.registry.models import Source
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from cdc_assets.resources.databases.postgresql_own_tables import foreign_hands
from spark.delta.identifiers import double_quote

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def inspect(platform: Platform, source: Source) -> Report:
    """All findings; a database that cannot be reached is one."""
    database = cast(PostgresDatabase, platform.database(source))
    offsets, away = ask_connect(platform, source)
    try:
        return _inspect(platform, database, source, offsets, away)
    except CdcAssetsError as error:
        return report_unreachable(source, lambda: database.place, error)


def _inspect(platform: Platform, database: PostgresDatabase, source: Source, offsets: list[Any], away: list[Finding]) -> Report:
    with database.connection() as connection:
        facts = read_facts(
            connection,
            slot=names.slot_name(source),
            publication=names.publication_name(source),
            tables=[table.id for table in source.tables],
            offsets=offsets,
        )
        own = own_table_findings(connection, source)
    facts = replace(facts, taken_in=patterns_taken_in(platform, source))
    retained = int(float((facts.slot or {}).get("retained_bytes") or 0))
    figures = {"slot_retained_bytes": retained} if facts.slot else {}
    if facts.slot and facts.slot.get("safe_wal_size") is not None:
        figures["slot_safe_wal_bytes"] = int(facts.slot["safe_wal_size"])

    def examine() -> tuple[Verdict, Finding]:
        found = look(platform, source)
        return found.verdict, _witness_finding(source, found)

    running = away or [incarnation(source, examine), *topics.of_platform(platform, source)]
    signals = signal_finding(source, database, may_create=bool(facts.server["create"]))
    catalogue = database.tables([table.id for table in source.tables])
    columns = column_refusals(database, source, catalogue, to_read=tables_to_read(platform, source))
    found = [*postgresql.findings(source, facts), *own, *columns, signals, *running]
    return Report(source.name, database.place, sort_findings(found), figures)


def own_table_findings(connection: Any, source: Source) -> list[Finding]:
    """Whether what we write to is ours alone."""
    found = list[Finding]()
    for table in (names.witness_table(source), names.starts_table(source), names.signal_table(source)):
        hands = connection.execute(foreign_hands(table).encode()).fetchall()
        found += [Finding("own_tables", "fail", str(table), f"is not ours alone: {what}", mend) for what, mend in hands]
    return found or [Finding("own_tables", "ok", "server", "the tables that we write to are our role's, or are to be made")]


def _witness_finding(source: Source, found: IdentityLook) -> Finding:
    if not found.witnessed:
        message = "takes no witness from us: once restored and written to for long enough, it cannot be told from what it was"
        database = expect(source.database, Database).dbname
        mend = f"GRANT CREATE ON DATABASE {double_quote(database)} TO the role of the connector"
        return Finding("incarnation", "warn", "server", message, mend)
    said = found.verdict.reason or f"is the one that was read: {found.facts.system}, timeline {found.facts.timeline}"
    return Finding("incarnation", "ok", "server", said)
