"""Asks a SQL Server through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.kinds import expect
from cdc_assets.preflight import by_driver, sqlserver
from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.registry.unasked_source import UnaskedSource

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    isolated = expect(source.database, SqlServer).snapshot_isolation == "snapshot"
    return sqlserver.findings(tables, answers, snapshot_isolation=isolated, user=user)


_RULES = by_driver.SqlRules(
    sqlserver.QUERIES, frozenset({"database", "tables"}), _findings, sqlserver.allowing, asked=sqlserver.is_answerable
)


def inspect(platform: Platform, source: UnaskedSource) -> Report:
    """All findings; a server that cannot be reached is one."""
    return by_driver.inspect(platform, source, _ask)


def _ask(source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    return by_driver.ask_in_sql(_RULES, source, tables, user)
