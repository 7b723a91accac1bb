"""What a connector would capture wrongly of a table, and names of columns that silver or Debezium cannot take: one list of
rules, which preflight shows and apply obeys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cdc_assets.capture.connectors.declared_connectors import tables_in_list
from cdc_assets.capture.preflight.inspection import NOT_SEEN, Finding, tables_to_read
from cdc_assets.capture.source_columns import catalogue_of, source_columns, without_columns
from cdc_assets.clients.databases.catalogue import CatalogueTable, SourceDatabase
from cdc_assets.clients.databases.translated_catalogue import TranslatedCatalogue
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId, case_twins
from cdc_assets.registry.source_declaration import CapturedSource, Source
from cdc_assets.registry.table_declaration import Table
from spark.silver.column_ledger import OWN_PREFIX, is_own_name
from spark.specs import OWN_COLUMNS


def column_name_findings(declared: Table, columns: Sequence[str]) -> Iterator[Finding]:
    """Of a table's columns: names that silver has for its own, pairs that differ by case alone, what `where` asks for."""
    name = str(declared.id)
    taken = [c for c in columns if is_own_name(c) and c not in declared.except_column_list]
    of_silver = [c for c in taken if c.lower() in OWN_COLUMNS]
    others = [c for c in taken if c not in of_silver]
    if of_silver:
        message = f"silver has columns of its own called {', '.join(of_silver)}: name them in except_column_list, or rename them"
        yield Finding("columns", "fail", name, message)
    if others:
        message = f"names that begin with {OWN_PREFIX} are kept for statements of ours, and it has {', '.join(others)}: "
        yield Finding("columns", "fail", name, f"{message}name them in except_column_list, or rename them")
    if absent := sorted({condition.column for condition in declared.where} - {*columns}):
        message = f"where asks for {', '.join(absent)}, and it has no such column; it has: {', '.join(columns)}"
        yield Finding("columns", "fail", name, message)
    for sentence in case_twins(columns):
        yield Finding("columns", "fail", name, sentence)


def signal_finding(source: Source, database: SourceDatabase, *, may_create: bool | None) -> Finding:
    """`may_create`: whether the role may make it; None where that is not known."""
    table = names.signal_table(source)
    if table in database.tables([table]):
        return Finding("signals", "ok", str(table), "is there: rows can be read again")
    if may_create is False:
        message = "does not exist, and the role may not make it: cdc snapshot, cdc onboard and cdc reconcile --heal need it"
        return Finding("signals", "warn", str(table), message, f"cdc apply {source.name} says what somebody who may has to run")
    made = f"cdc apply {source.name} makes it"
    return Finding("signals", "ok", str(table), f"does not exist yet; {made if may_create else f'{made} where the role may'}")


def uncapturable_findings(platform: Platform, source: CapturedSource) -> Iterator[Finding]:
    """Of each table whose columns the source's catalogue tells: it exists, and every rule of its columns.

    Types without an exact form, names that silver cannot have, values that a snapshot misreads.

    Raises DatabaseError: the source cannot be asked.
    """
    source = source.model_copy(update={"tables": without_columns(source)})
    if not source.tables:
        return
    database, catalogue = _catalogue(Chain(platform, source))
    for table in source.tables:
        if table.id not in catalogue:
            yield Finding("table", "fail", str(table.id), NOT_SEEN, "correct its name in the registry, or create it")
    yield from column_refusals(database, source, catalogue, to_read=tables_to_read(Chain(platform, source)))


def without_uncapturable(chain: Chain[CapturedSource], running: Mapping[str, str] | None) -> CapturedSource:
    """The source without the tables that a connector cannot capture as they are; those that it has already stay."""
    refused = {finding.subject for finding in uncapturable_findings(chain.platform, chain.source) if finding.level == "fail"}
    listed = () if running is None else tables_in_list(chain.source, running)
    tables = tuple(table for table in chain.source.tables if table.name in listed or str(table.id) not in refused)
    return chain.source.model_copy(update={"tables": tables})


def _catalogue(chain: Chain[CapturedSource]) -> tuple[TranslatedCatalogue, Mapping[TableId, CatalogueTable]]:
    if chain.source.asked:
        database = chain.platform.database(chain.source.asked)
        return database, database.tables([table.id for table in chain.source.tables])
    return chain.platform.columns(chain.source), catalogue_of(chain, chain.source.tables)


def refuse_uncapturable(
    database: TranslatedCatalogue,
    source: CapturedSource,
    found: Mapping[TableId, CatalogueTable],
    *,
    to_read: Collection[TableId],
) -> None:
    """Every finding of every table at once. Raises DatabaseError: naming tables, columns, and what to do about each."""
    findings = [f"{finding.subject} {finding.message}" for finding in column_refusals(database, source, found, to_read=to_read)]
    if findings:
        raise DatabaseError(f"{database.place}: nothing was applied:\n" + "\n".join(findings))


def column_refusals(
    database: TranslatedCatalogue,
    source: CapturedSource,
    found: Mapping[TableId, CatalogueTable],
    *,
    to_read: Collection[TableId],
) -> Iterator[Finding]:
    """Of each table that is there.

    `to_read`: the tables that a snapshot is about to read, so their days are looked at too. That is one pass over each of them
    that has a column of days.
    """
    for table in source.tables:
        if table.id not in found:
            continue
        yield from column_name_findings(table, [column.name for column in found[table.id].columns])
        try:
            for sentence in inexact_columns(database, source, table, found[table.id], snapshot=table.id in to_read):
                yield Finding("columns", "fail", str(table.id), sentence)
        except DatabaseError as error:
            # Its other rules say what fails: the role may not read it, or somebody holds it.
            mend = "let the role read it, or end what holds it"
            yield Finding("columns", "warn", str(table.id), f"its rows cannot be looked at: {error}", mend)


def inexact_columns(
    database: TranslatedCatalogue, source: CapturedSource, table: Table, found: CatalogueTable, *, snapshot: bool
) -> Iterator[str]:
    """A sentence for each captured column that has no exact form, or none that a key could have. `snapshot`: it will be read."""
    from spark.errors import JobRefusedError
    from spark.values.lake_types import lake_type, no_key

    columns, key = source_columns(source, table, found), table.keys or found.primary_key
    for column in columns:
        if column.name in key and (why := no_key(column)):
            yield (
                f"column {column.name!r} has type {column.source_type} and is part of the key: {why}; "
                "declare other columns as keys, or make it of another type"
            )
            continue
        try:
            lake_type(column)
        except JobRefusedError as error:
            yield str(error)
    unaccepted = [c.name for c in columns if not c.accepted]
    for name, what in database.misread(found, unaccepted, snapshot=snapshot).items():
        yield f"column {name!r} {what}"
