"""Asks a SQL Server through its driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.kinds import expect
from cdc_assets.preflight import by_driver, sqlserver
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.registry.unasked_source import UnaskedSource


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    isolated = expect(source.database, SqlServer).snapshot_isolation == "snapshot"
    return sqlserver.findings(tables, answers, snapshot_isolation=isolated, user=user)


RULES = by_driver.SqlRules(
    sqlserver.QUERIES, frozenset({"database", "tables"}), _findings, sqlserver.allowing, asked=sqlserver.is_answerable
)
inspect = RULES.inspect
