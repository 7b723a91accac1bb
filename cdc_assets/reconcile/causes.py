"""Why rows differ where no row tells it: a column's type was changed, which is one cause of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc_assets import names
from cdc_assets.reconcile.result import TableResult
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import ledger_of
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.old_members import cause_of
from spark.schema.column_ledger import ColumnChange
from spark.schema.member_changes import ATTRIBUTES, RELABEL, member_changes


def with_causes(
    platform: Platform, source: BaseSource, catalogue: Mapping[TableId, CatalogueTable], found: Mapping[str, TableResult]
) -> dict[str, TableResult]:
    """By short table name, as they came; each that differs in a column whose type was changed has the causes."""
    tables = {names.table_name(table): table for table in source.tables}
    answer = dict(found)
    for name, result in found.items():
        columns = {column for difference in result.differences for column in difference.columns}
        table = tables.get(name)
        if columns and table is not None and (there := catalogue.get(table.id)):
            told = [cause_of(change) for change in _changes(platform, source, table, there) if change.column in columns]
            answer[name] = replace(result, causes=tuple(told))
    return answer


def _changes(platform: Platform, source: BaseSource, table: Table, now: CatalogueTable) -> list[ColumnChange]:
    """Those that silver's ledger has, and those since: a table at rest is not folded, so its ledger does not know them."""
    ledger = ledger_of(names.silver_path(platform.lake, source, table))
    if ledger is None:
        return []
    known = {column.event_field: column for column in ledger.columns}
    since = [c for new in source_columns(source, table, now) if new.name in known for c in member_changes(known[new.name], new)]
    return [*(change for change, _ in ledger.changes_of(RELABEL, ATTRIBUTES)), *since]
