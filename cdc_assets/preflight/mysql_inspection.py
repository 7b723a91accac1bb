"""Asks a MySQL through its driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.preflight import by_driver, mysql
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.unasked_source import UnaskedSource


def _findings(source: UnaskedSource, tables: list[TableId], answers: by_driver.Answers, user: str) -> Iterator[Finding]:
    # Debezium itself writes into the signal table where a window of a snapshot opens and closes.
    ours = {source.reconciliation.marker: ("INSERT", "DELETE"), names.signal_declaration(source): ("INSERT",)}
    written = {parse_table(name): what for name, what in ours.items() if name}
    return mysql.findings(tables, answers, user=user, keyed=by_driver.with_known_key(source, tables), written=written)


RULES = by_driver.SqlRules(
    {**mysql.QUERIES, **mysql.FILTERS}, frozenset(mysql.QUERIES), _findings, mysql.allowing, asked=mysql.is_answerable
)
inspect = RULES.inspect
