"""MySQL, SQL Server, Oracle and MongoDB compared in two steps: rows come page by page, and a row of ours marks the log.

Everything that was committed before the marker's row lies before it in the log, and Debezium delivers in the order of commits:
once the connector has brought the row to its topic, the table's topics hold all of that. The marker table is captured like a
table of the source (`reconciliation: {marker: schema.table}`).
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.reconcile import two_step
from cdc_assets.reconcile.method import WHOLE_TABLES, ComparisonScope
from cdc_assets.reconcile.result import TableResult, not_compared
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.rows.open import open_reader
from cdc_assets.resources.rows.paged import PagedRows
from cdc_assets.tables.source_catalogue import catalogue_of
from cdc_assets.volumetry.log_position import LogPosition
from cdc_assets.volumetry.named_place import carry_by_marker_table


def compare(
    platform: Platform, source: UnaskedSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well."""
    try:
        reader = open_reader(source.database)
        _refuse_without_marker(source)

        def carry() -> LogPosition:
            return carry_by_marker_table(platform, source, scope.timeout)

        catalogue = catalogue_of(platform, source, tables)
        asked = two_step.TwoStepSource(PagedRows(reader), carry, catalogue, scope.method.view)
        return two_step.compare(platform, source, tables, asked, slices=scope.shares)
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(source, table, str(error), method="two-step") for table in tables}


def _refuse_without_marker(source: UnaskedSource) -> None:
    if source.reconciliation.marker is None:
        raise DatabaseError(
            f"source {source.name} declares no marker table, so nobody knows when the lake has what its rows show: make one with "
            "a column id varchar(100) primary key, declare it (reconciliation: {marker: schema.table}), and cdc apply"
        )
