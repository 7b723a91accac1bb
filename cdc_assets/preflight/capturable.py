"""What a connector would capture wrongly of a table: one list of rules, which preflight shows and apply obeys.

Types without an exact form, names that silver cannot have, values that a snapshot misreads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.errors import DatabaseError
from cdc_assets.preflight.column_names import column_name_findings
from cdc_assets.preflight.finding import NOT_SEEN, Finding
from cdc_assets.preflight.running import tables_to_read
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.columns.translated import TranslatedCatalogue
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.source_catalogue import catalogue_of, without_columns


def uncapturable_findings(platform: Platform, source: CapturedSource) -> Iterator[Finding]:
    """Of each table whose columns the source's catalogue tells: it exists, and every rule of its columns.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    source = source.model_copy(update={"tables": without_columns(source)})
    if not source.tables:
        return
    database, found = _catalogue(platform, source)
    for table in source.tables:
        if table.id not in found:
            yield Finding("table", "fail", str(table.id), NOT_SEEN, "correct its name in the registry, or create it")
    yield from column_refusals(database, source, found, to_read=tables_to_read(platform, source))


def without_uncapturable(platform: Platform, source: CapturedSource, running: Mapping[str, str] | None) -> CapturedSource:
    """The source without the tables that a connector cannot capture as they are; those that it has already stay."""
    refused = {finding.subject for finding in uncapturable_findings(platform, source) if finding.level == "fail"}
    listed = () if running is None else tables_in_list(source, running)
    tables = tuple(table for table in source.tables if table.name in listed or str(table.id) not in refused)
    return source.model_copy(update={"tables": tables})


def _catalogue(platform: Platform, source: CapturedSource) -> tuple[TranslatedCatalogue, Mapping[TableId, CatalogueTable]]:
    if source.asked:
        database = platform.database(source.asked)
        return database, database.tables([table.id for table in source.tables])
    return platform.columns(source), catalogue_of(platform, source, source.tables)


def refuse_uncapturable(
    database: TranslatedCatalogue,
    source: CapturedSource,
    found: Mapping[TableId, CatalogueTable],
    *,
    to_read: Collection[TableId],
) -> None:
    """Every finding of every table at once.

    Raises:
        DatabaseError: naming tables, columns, and what to do about each.
    """
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
    from spark.errors import ColumnTypeError
    from spark.types.type_rules import lake_type, no_key

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
        except ColumnTypeError as error:
            yield str(error)
    unaccepted = [c.name for c in columns if not c.accepted]
    for name, what in database.misread(found, unaccepted, snapshot=snapshot).items():
        yield f"column {name!r} {what}"
