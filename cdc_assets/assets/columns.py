"""A table's captured columns, from its declaration and the catalogue."""

from __future__ import annotations

from cdc_assets.registry.models import Table
from cdc_assets.resources.databases.postgresql import CatalogueTable
from spark.specs import Column


def source_columns(table: Table, found: CatalogueTable) -> tuple[Column, ...]:
    """The captured columns with their types."""
    accepted = frozenset(table.accept_inexact)
    return tuple(
        Column(c.name, c.type, c.nullable, c.kind, c.name in accepted, c.number, c.missing, c.defaulted)
        for c in found.columns
        if c.name not in table.except_column_list
    )
