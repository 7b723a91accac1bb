"""The columns that a table has: from the source's catalogue or from the declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.declared_table import DeclaredTable
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.dropped_tables import with_generations
from cdc_assets.resources.platform import Platform

_NOT_NULL = " not null"


def catalogue_of(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> Mapping[TableId, CatalogueTable]:
    """The tables that there are, with their columns."""
    if asked := source.asked:
        found = platform.database(asked).tables([table.id for table in tables])
        if not names.has_schema_history(asked):
            return found
        return with_generations(platform.core_kafka(source.cluster), names.schema_history_topic(asked), found)
    return {table.id: catalogue_table(table) for table in tables if isinstance(table, DeclaredTable)}


def catalogue_table(table: DeclaredTable) -> CatalogueTable:
    """A table as its declaration describes it."""
    columns = []
    for name, text in table.columns.items():
        required = text.lower().endswith(_NOT_NULL)
        kind = text[: -len(_NOT_NULL)].strip() if required else text.strip()
        columns.append(CatalogueColumn(name, kind, not required))
    return CatalogueTable(table.id, tuple(columns), table.keys or ())
