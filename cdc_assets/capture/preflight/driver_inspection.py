"""Asks a server for what its kind's file wants to know, through the driver that reads its rows.

Each query has a connection of its own: one that the role may not ask is told with the statement that allows it, and takes
nothing from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc_assets.capture.preflight import kafka_topics
from cdc_assets.capture.preflight.capturable_tables import column_name_findings, column_refusals
from cdc_assets.capture.preflight.inspection import Finding, Report, place_or_unknown, sort_findings, tables_to_read
from cdc_assets.capture.source_columns import catalogue_of, without_columns
from cdc_assets.clients.kind_clients import open_connection
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError
from cdc_assets.registry.field_types import TableId, parse_table
from cdc_assets.registry.source_declaration import UnaskedSource

Answers = dict[str, Any]
Rows = Sequence[Sequence[Any]]
Ask = Callable[[UnaskedSource, list[TableId], str], Iterator[Finding]]
"""Of a source: its tables, and the role that asks."""


@dataclass(frozen=True)
class SqlRules:
    """Of one kind that is asked in SQL; nothing can be said without the answers to `needed`."""

    queries: Mapping[str, str]
    needed: frozenset[str]
    findings: Callable[[UnaskedSource, list[TableId], Answers, str], Iterator[Finding]]
    allowing: Callable[[str, str], str]
    asked: Callable[[str, Answers], bool] = lambda _name, _answers: True

    def inspect(self, chain: Chain[UnaskedSource]) -> Report:
        """All findings; a server that cannot be reached is one."""
        return inspect_by_driver(chain, self.ask)

    @property
    def ask(self) -> Ask:
        """Of the server alone, without its topics (`findings`)."""
        return partial(_ask_in_sql, self)


def inspect_by_driver(chain: Chain[UnaskedSource], ask: Ask) -> Report:
    """Every rule of its kind and of its topics."""
    all_findings = [*findings(chain, ask), *kafka_topics.platform_topic_findings(chain)]
    return Report(chain.source.name, place_or_unknown(lambda: address_of(chain.source)), sort_findings(all_findings))


def address_of(source: UnaskedSource) -> str:
    """Where its database is, for messages."""
    database = source.database
    return ":".join(str(settings.resolve(getattr(database, key))) for key in database.ADDRESS)


def findings(chain: Chain[UnaskedSource], ask: Ask) -> Iterator[Finding]:
    """Every rule of its kind; a server that cannot be reached, or a driver that is not there, is one."""
    for table in chain.source.tables:
        yield from column_name_findings(table, [*table.declared_columns])
    ours = (chain.source.reconciliation.marker, names.signal_declaration(chain.source))
    captured = [*(table.id for table in chain.source.tables), *(parse_table(name) for name in ours if name)]
    try:
        yield from ask(chain.source, captured, settings.resolve(chain.source.database.user))
        yield from _column_findings(chain)
    except DatabaseError as error:
        mend = error.install or "mend that first"
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error.message}", mend)
    except CdcAssetsError as error:
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")


def _ask_in_sql(rules: SqlRules, source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    """The findings of a kind that is asked in SQL. Raises DatabaseError: the server cannot be reached."""
    server = open_connection(source.database)
    with server.cursor():
        pass  # what fails from here on is one query's own
    answers, schemas = Answers(), sorted({table.schema for table in tables})
    for name, query in rules.queries.items():
        if not rules.asked(name, answers):
            continue
        placed = query.format(schemas=", ".join(server.dialect.placeholder(i + 1) for i in range(len(schemas))))
        try:
            with server.cursor() as cursor:
                cursor.execute(placed, *([schemas] if placed != query else ()))
                answers[name] = [*cursor.fetchall()]
        except DatabaseError as error:
            yield refusal_of(name, error, rules.allowing(name, user), needed=name in rules.needed)
    if rules.needed <= answers.keys():
        yield from rules.findings(source, tables, answers, user)


def refusal_of(name: str, error: DatabaseError, mend: str, *, needed: bool = False) -> Finding:
    """Of a question that the role may not ask."""
    return Finding("refused", "fail" if needed else "warn", name, f"cannot be looked at: {error}", mend)


def _column_findings(chain: Chain[UnaskedSource]) -> Iterator[Finding]:
    """Of the columns that nobody declares."""
    alone = chain.source.model_copy(update={"tables": without_columns(chain.source)})
    if not alone.tables:
        return
    try:
        catalogue = catalogue_of(Chain(chain.platform, alone), alone.tables)
        yield from column_refusals(
            chain.platform.columns(alone), alone, catalogue, to_read=tables_to_read(Chain(chain.platform, alone))
        )
    except DatabaseError as error:
        mend = "let the role read the catalogue, or declare the tables' columns and keys"
        yield refusal_of("columns", error, mend, needed=True)


def with_known_key(source: UnaskedSource, tables: list[TableId]) -> list[TableId]:
    """The tables whose key nobody has to look for: it is declared, or the table is one of ours."""
    looked_for = {table.id for table in source.tables if not table.keys}
    return [table for table in tables if table not in looked_for]
