"""Asks an Oracle through its driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.preflight import by_driver, oracle
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.unasked_source import UnaskedSource


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    return oracle.findings(tables, answers, keyed=by_driver.with_known_key(source, tables))


RULES = by_driver.SqlRules(oracle.QUERIES, frozenset({"tables", "log_groups"}), _findings, oracle.allowing)
inspect = RULES.inspect
