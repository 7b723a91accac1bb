"""Asks a MySQL through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.preflight import by_driver, mysql
from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.unasked_source import UnaskedSource

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    # Debezium itself writes into the signal table where a window of a snapshot opens and closes.
    ours = {source.reconciliation.marker: ("INSERT", "DELETE"), source.reconciliation.signals: ("INSERT",)}
    written = {parse_table(name): what for name, what in ours.items() if name}
    return mysql.findings(tables, answers, user=user, keyed=tables, written=written)


_RULES = by_driver.SqlRules(
    {**mysql.QUERIES, **mysql.FILTERS}, frozenset(mysql.QUERIES), _findings, mysql.allowing, asked=mysql.is_answerable
)


def inspect(platform: Platform, source: UnaskedSource) -> Report:
    """All findings; a server that cannot be reached is one."""
    return by_driver.inspect(platform, source, _ask)


def _ask(source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    return by_driver.ask_in_sql(_RULES, source, tables, user)
