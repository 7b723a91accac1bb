"""A table's captured columns, from its declaration and the catalogue."""

from __future__ import annotations

from cdc_assets.kinds import kind_of
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.topic_source import TopicTable
from cdc_assets.resources.databases.catalogue import CatalogueTable
from spark.specs import Column


def source_columns(source: BaseSource, table: Table, found: CatalogueTable) -> tuple[Column, ...]:
    """The captured columns with their types, and how their values are written."""
    modes = _modes(source, table)
    dialect = kind_of(source).dialect
    accepted = frozenset(table.accept_inexact)
    return tuple(
        Column(
            c.name,
            c.type,
            c.nullable,
            c.kind,
            c.name in accepted,
            c.number,
            c.missing,
            c.defaulted,
            modes=modes,
            dialect=dialect,
            members=c.members,
        )
        for c in found.columns
        if c.name not in table.except_column_list
    )


def _modes(source: BaseSource, table: Table) -> str:
    if isinstance(table, TopicTable):
        return table.values.modes
    return source.captured.values.modes if source.captured else ""
