"""Asks a server for what its kind's file wants to know, through the driver that reads its rows.

Each query has a connection of its own: one that the role may not ask is told with the statement that allows it, and takes
nothing from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from cdc_assets import names, settings
from cdc_assets.errors import CdcAssetsError, DatabaseError, DriverMissingError
from cdc_assets.preflight import topics
from cdc_assets.preflight.capturable import column_refusals
from cdc_assets.preflight.column_names import column_name_findings
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.preflight.inspection import place_or_unknown
from cdc_assets.preflight.running import tables_to_read
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.rows.open import open_connection
from cdc_assets.tables.source_catalogue import catalogue_of, registry_columns, without_columns

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

Answers = dict[str, Any]
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

    def inspect(self, platform: Platform, source: UnaskedSource) -> Report:
        """All findings; a server that cannot be reached is one."""
        return inspect(platform, source, self.ask)

    @property
    def ask(self) -> Ask:
        """Of the server alone, without its topics (`findings`)."""
        return partial(_ask_in_sql, self)


def inspect(platform: Platform, source: UnaskedSource, ask: Ask) -> Report:
    """Every rule of its kind and of its topics."""
    found = [*findings(platform, source, ask), *topics.of_platform(platform, source)]
    return Report(source.name, place_or_unknown(lambda: place(source)), sort_findings(found))


def place(source: UnaskedSource) -> str:
    """Where its database is, for messages."""
    database = source.database
    return ":".join(str(settings.resolve(getattr(database, key))) for key in database.ADDRESS)


def findings(platform: Platform, source: UnaskedSource, ask: Ask) -> Iterator[Finding]:
    """Every rule of its kind; a server that cannot be reached, or a driver that is not there, is one."""
    for table in source.tables:
        yield from column_name_findings(table, [*registry_columns(table)])
    try:
        yield from ask(source, _tables_in_capture(source), settings.resolve(source.database.user))
        yield from _column_findings(platform, source)
    except DriverMissingError as error:
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error.what}", error.install)
    except CdcAssetsError as error:
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")


def _ask_in_sql(rules: SqlRules, source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    """The findings of a kind that is asked in SQL.

    Raises:
        DatabaseError: the server cannot be reached.
    """
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


def _column_findings(platform: Platform, source: UnaskedSource) -> Iterator[Finding]:
    """Of the columns that nobody declares."""
    alone = source.model_copy(update={"tables": without_columns(source)})
    if not alone.tables:
        return
    try:
        found = catalogue_of(platform, alone, alone.tables)
        yield from column_refusals(platform.columns(alone), alone, found, to_read=tables_to_read(platform, alone))
    except DatabaseError as error:
        mend = "let the role read the catalogue, or declare the tables' columns and keys"
        yield refusal_of("columns", error, mend, needed=True)


def with_known_key(source: UnaskedSource, tables: list[TableId]) -> list[TableId]:
    """The tables whose key nobody has to look for: it is declared, or the table is one of ours."""
    looked_for = {table.id for table in source.tables if not table.keys}
    return [table for table in tables if table not in looked_for]


def _tables_in_capture(source: UnaskedSource) -> list[TableId]:
    """The declared tables, and those of ours that are captured like them."""
    ours = (source.reconciliation.marker, names.signal_declaration(source))
    return [*(table.id for table in source.tables), *(parse_table(name) for name in ours if name)]
