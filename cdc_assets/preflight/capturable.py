"""What a connector would capture wrongly, found before it starts: types without an exact form, dates that a snapshot misreads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId, case_twins
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.columns.translated import TranslatedCatalogue
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.source_catalogue import catalogue_of, without_columns


def refuse_uncapturable(platform: Platform, source: CapturedSource) -> None:
    """Before a connector of the source is made or changed: its tables exist, and each of their columns has an exact form.

    Tables that declare their columns are not asked for.

    Raises:
        DatabaseError: naming what is missing or inexact, and what to do about it.
    """
    source = source.model_copy(update={"tables": without_columns(source)})
    if not source.tables:
        return
    database, found = _catalogue(platform, source)
    missing = [table.name for table in source.tables if table.id not in found]
    if missing:
        raise DatabaseError(
            f"{database.place} has no table {', '.join(missing)}; correct the names in the registry, or create the tables"
        )
    is_new = platform.core_connect(source.cluster).config(names.connector_name(source)) is None
    refuse_inexact(database, source, found, snapshot=is_new and source.capture.snapshot != "no_data")


def _catalogue(platform: Platform, source: CapturedSource) -> tuple[TranslatedCatalogue, Mapping[TableId, CatalogueTable]]:
    if source.asked:
        database = platform.database(source.asked)
        return database, database.tables([table.id for table in source.tables])
    return platform.columns(source), catalogue_of(platform, source, source.tables)


def refuse_inexact(
    database: TranslatedCatalogue, source: CapturedSource, found: Mapping[TableId, CatalogueTable], *, snapshot: bool
) -> None:
    """Every finding of every table at once.

    `snapshot`: the connector is about to read the tables, so their dates are looked at too (one pass over each table
    that has a date column).

    Raises:
        DatabaseError: naming tables, columns, and what to do about each.
    """
    findings = []
    for table in source.tables:
        twins = case_twins(column.name for column in found[table.id].columns)
        findings += [f"{table.name}: {sentence}" for sentence in twins]
        told = inexact_columns(database, source, table, found[table.id], snapshot=snapshot)
        findings += [f"{table.name} {sentence}" for sentence in told]
    if findings:
        raise DatabaseError(f"{database.place}: nothing was applied:\n" + "\n".join(findings))


def inexact_findings(
    database: TranslatedCatalogue, source: CapturedSource, found: Mapping[TableId, CatalogueTable]
) -> Iterator[Finding]:
    """What `cdc apply` would refuse of the columns, but for the days that only a look at every row tells."""
    for table in source.tables:
        if table.id in found:
            for sentence in inexact_columns(database, source, table, found[table.id], snapshot=False):
                yield Finding("columns", "fail", str(table.id), sentence)


def inexact_columns(
    database: TranslatedCatalogue, source: CapturedSource, table: Table, found: CatalogueTable, *, snapshot: bool
) -> Iterator[str]:
    """A sentence for each captured column that has no exact form, or none that a key could have. `snapshot` as above."""
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
