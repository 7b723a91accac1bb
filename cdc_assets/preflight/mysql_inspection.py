"""Asks a MySQL through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.preflight import by_driver, mysql, table_models
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.preflight.mysql_grants import account, may, parse_grants
from cdc_assets.preflight.running import ask_connect
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.unasked_source import UnaskedSource
from spark.delta.identifiers import quote

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

_TO_MAKE = ("CREATE", "SELECT", "INSERT", "DELETE")
"""What makes the signal table, writes to it and clears it."""


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    # Debezium itself writes into the signal table where a window of a snapshot opens and closes.
    ours = {source.reconciliation.marker: ("INSERT", "DELETE"), names.signal_declaration(source): ("INSERT",)}
    written = {parse_table(name): what for name, what in ours.items() if name}
    signals = parse_table(told) if (told := names.signal_declaration(source)) else None
    later = [signals] if signals else []
    keyed = by_driver.with_known_key(source, tables)
    yield from mysql.findings(tables, answers, user=user, keyed=keyed, written=written, later=later)
    if signals and signals not in mysql.tables_there(answers):
        yield _unmade_signals(source.name, signals, answers, user)


def _unmade_signals(source: str, table: TableId, answers: by_driver.Answers, user: str) -> Finding:
    rights = parse_grants(answers["grants"])
    lacking = ", ".join(one for one in _TO_MAKE if not may(rights, one, table))
    if not lacking:
        return Finding("signals", "ok", str(table), f"does not exist yet; cdc apply {source} makes it")
    message = f"does not exist, and the role lacks {lacking}: cdc snapshot, cdc onboard and cdc reconcile --heal need it"
    mend = f"GRANT {lacking} ON {quote(table.schema)}.* TO {account(answers.get('account'), user)}"
    return Finding("signals", "warn", str(table), message, f"{mend}; then cdc apply {source} makes it")


RULES = by_driver.SqlRules(
    {**mysql.QUERIES, **mysql.FILTERS}, frozenset(mysql.QUERIES), _findings, mysql.allowing, asked=mysql.is_answerable
)


def inspect(platform: Platform, source: UnaskedSource) -> Report:
    """Every rule of its server and topics, and by which columns Debezium reads its tables."""
    report = RULES.inspect(platform, source)
    if any(finding.check == "reachable" for finding in report.findings) or ask_connect(platform, source)[1]:
        return report
    models = table_models.findings(platform, source, [table.id for table in source.tables])
    return replace(report, findings=sort_findings([*report.findings, *models]))
