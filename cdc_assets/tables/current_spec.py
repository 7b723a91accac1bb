"""The spec of a table's fold as it would run now."""

from __future__ import annotations

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.fold_refusals import absent_table
from cdc_assets.tables.fold_specs import last_known_table, silver_spec
from cdc_assets.tables.source_catalogue import catalogue_of
from spark.specs import SilverSpec


def current_spec(platform: Platform, source: BaseSource, table: Table) -> SilverSpec:
    """Its columns as the source's catalogue shows them now, or as silver knew them last where the source has dropped it.

    Raises:
        DatabaseError: the source has no such table, or cannot be asked.
    """
    known = dict(catalogue_of(platform, source, [table])).get(table.id) or last_known_table(platform.lake, source, table)
    if known is None:
        raise DatabaseError(absent_table(source, table))
    return silver_spec(platform.lake, source, table, known)
