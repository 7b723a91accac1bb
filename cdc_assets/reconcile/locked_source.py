"""MySQL's rows compared at an exact cut, which is taken under a global read lock; in pages where nobody may lock.

A table whose declared columns are of other types than the database's (a length of time as a bigint) is compared in pages too: the
server's SQL would write other texts than silver has (paged_source).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, CutRefusedError, IncarnationError
from cdc_assets.identity.look import refusal, verdict
from cdc_assets.reconcile import compare as exact
from cdc_assets.reconcile import paged_source
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.databases.mysql import MySqlDatabase
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.source_catalogue import columns_as_declared, registry_columns


def compare(
    platform: Platform, source: UnaskedSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well."""
    if scope.method.two_step or not exact.can_reconcile(source):
        return paged_source.compare(platform, source, tables, scope)
    try:
        if (found_other := verdict(platform, source)).kind == "other":
            raise IncarnationError(refusal(source, found_other))
        otherwise = _other_types(platform, source, tables)
        found = exact.compare_at_cut(platform, source, [t for t in tables if t.name not in otherwise], scope)
    except CutRefusedError as error:
        if source.reconciliation.marker:
            return paged_source.compare(platform, source, tables, scope)
        told = (
            f"{error}; or declare a marker table, by which rows are compared in pages (reconciliation: {{marker: schema.table}})"
        )
        return {names.table_name(table): not_compared(source, table, told) for table in tables}
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(source, table, str(error)) for table in tables}
    in_pages = [t for t in tables if t.name in otherwise]
    return found | (paged_source.compare(platform, source, in_pages, scope) if in_pages else {})


def _other_types(platform: Platform, source: UnaskedSource, tables: Sequence[Table]) -> set[str]:
    """The tables with a column of which the database's type and the declared one are not written alike."""
    from spark.canonical.mysql import fits

    written = cast(MySqlDatabase, platform.database(source)).tables_in_own_types([table.id for table in tables])
    declared = columns_as_declared(source, written)
    found: set[str] = set()
    for table in tables:
        if table.id not in written or not registry_columns(table):
            continue
        types = {column.name: column.type for column in written[table.id].columns}
        columns = [c for c in source_columns(source, table, declared[table.id]) if c.name in types]
        if not all(fits(types[c.name], c) for c in columns):
            found.add(table.name)
    return found
