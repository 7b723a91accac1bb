"""The columns that a table has: from the source's catalogue, or from the declaration, which stands where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets import names
from cdc_assets.kinds import kind_of
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.declared_table import DeclaredTable
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.dropped_tables import with_schema_history
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import last_known

_NOT_NULL = " not null"


def catalogue_of(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> Mapping[TableId, CatalogueTable]:
    """The tables that there are, with their columns.

    Raises:
        DatabaseError: the source cannot be asked for columns that nobody declares.
    """
    if asked := source.asked:
        found = platform.database(asked).tables([table.id for table in tables])
        if not names.has_schema_history(asked):
            return found
        return with_schema_history(platform.core_kafka(source.cluster), names.schema_history_topic(asked), found)
    declared = {table.id: catalogue_table(table) for table in tables if isinstance(table, DeclaredTable) and table.columns}
    others = [table for table in tables if table.id not in declared]
    if not others or source.captured is None:
        return declared
    return declared | _ask_catalogue(platform, source.captured, others)


def without_columns(source: CapturedSource) -> tuple[Table, ...]:
    """The tables whose columns the source's catalogue tells."""
    return tuple(table for table in source.tables if not registry_columns(table))


def registry_columns(table: Table) -> Mapping[str, str]:
    """What the registry says of its columns; empty: nothing."""
    return table.columns if isinstance(table, DeclaredTable) else {}


def catalogue_table(table: DeclaredTable) -> CatalogueTable:
    """A table as its declaration describes it."""
    columns = []
    for name, text in table.columns.items():
        required = text.lower().endswith(_NOT_NULL)
        kind = text[: -len(_NOT_NULL)].strip() if required else text.strip()
        columns.append(CatalogueColumn(name, kind, not required))
    return CatalogueTable(table.id, tuple(columns), table.keys or ())


def columns_as_declared(source: CapturedSource, found: Mapping[TableId, CatalogueTable]) -> dict[TableId, CatalogueTable]:
    """The tables that a catalogue has, with the columns that are declared, where they are."""
    declared = {t.id: catalogue_table(t) for t in source.tables if isinstance(t, DeclaredTable) and t.columns}
    return {id_: declared.get(id_, table) for id_, table in found.items()}


def _ask_catalogue(platform: Platform, source: CapturedSource, tables: Sequence[Table]) -> dict[TableId, CatalogueTable]:
    found = platform.columns(source).tables([table.id for table in tables])
    if not kind_of(source).by_sample:
        return found
    for table in tables:
        known = last_known(names.silver_path(platform.lake, source, table), table.id)
        if known is not None and table.id in found:
            found[table.id] = _with_known(found[table.id], known)
    return found


def _with_known(sampled: CatalogueTable, known: CatalogueTable) -> CatalogueTable:
    """The columns that silver has, as it has them, and those that are new: another sample says nothing of the others."""
    there = {column.name for column in known.columns}
    return CatalogueTable(sampled.id, (*known.columns, *(c for c in sampled.columns if c.name not in there)), sampled.primary_key)
