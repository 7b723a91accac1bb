"""Asks an Oracle through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.preflight import by_driver, oracle
from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.unasked_source import UnaskedSource

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def _findings(_: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    return oracle.findings(tables, answers, keyed=tables)


_RULES = by_driver.SqlRules(oracle.QUERIES, frozenset({"tables", "log_groups"}), _findings, oracle.allowing)


def inspect(platform: Platform, source: UnaskedSource) -> Report:
    """All findings; a server that cannot be reached is one."""
    return by_driver.inspect(platform, source, _ask)


def _ask(source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    return by_driver.ask_in_sql(_RULES, source, tables, user)
