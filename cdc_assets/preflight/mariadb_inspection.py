"""Asks a MariaDB what a MySQL is asked as well, and whether its binlog holds what has not been read."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cdc_assets.errors import CdcAssetsError
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.mariadb import verdict
from cdc_assets.preflight import mysql, table_models, topics
from cdc_assets.preflight.capturable import column_refusals
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.preflight.inspection import report_unreachable
from cdc_assets.preflight.running import ask_connect, incarnation, tables_to_read
from cdc_assets.preflight.signal_table import signal_finding
from cdc_assets.registry.models import Source
from cdc_assets.resources.databases.mariadb import MariaDbDatabase

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def inspect(platform: Platform, source: Source) -> Report:
    """All findings; a database that cannot be reached is one."""
    database = cast(MariaDbDatabase, platform.database(source))
    _, away = ask_connect(platform, source)
    try:
        return _inspect(platform, database, source, away)
    except CdcAssetsError as error:
        return report_unreachable(source, lambda: database.place, error)


def _inspect(platform: Platform, database: MariaDbDatabase, source: Source, away: list[Finding]) -> Report:
    tables = [table.id for table in source.tables]
    answers = database.answers(mysql.QUERIES, sorted({table.schema for table in tables}))
    # A user who may only read sees no referential_constraints there, but every table's definition.
    answers["cascades"] = [row for table, text in database.definitions(tables).items() for row in mysql.cascades_of(table, text)]
    keyed = [table.id for table in source.tables if table.keys]

    def examine() -> tuple[Verdict, Finding]:
        held = Finding("incarnation", "ok", "server", "its binlog holds what has not been read")
        return verdict(platform, source), held

    running = away or [incarnation(source, examine), *topics.of_platform(platform, source)]
    signals = signal_finding(source, database, may_create=None)
    catalogue = database.tables(tables)
    columns = column_refusals(database, source, catalogue, to_read=tables_to_read(platform, source))
    models = [] if away else table_models.findings(platform, source, tables)
    found = [*mysql.findings(tables, answers, user=database.user, keyed=keyed), *columns, signals, *running, *models]
    return Report(source.name, database.place, sort_findings(found))
