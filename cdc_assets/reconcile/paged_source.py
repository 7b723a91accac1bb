"""MySQL, SQL Server, Oracle and MongoDB compared in two steps: rows come page by page, and the log is marked between them.

Everything that was committed before the mark lies before it in the log, and Debezium delivers in the order of commits: once the
connector is behind it, the tables' topics hold all of that. MySQL tells its place itself; elsewhere the mark is a row of ours in
a table that is captured like one of the source (`reconciliation: {marker: schema.table}`), see named_place. Nothing is locked.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.kinds import kind_of
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
from cdc_assets.volumetry.named_place import carry_named


def compare(
    platform: Platform, source: UnaskedSource, tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well."""
    try:
        reader = open_reader(source.database)
        _refuse_without_marker(source)

        def carry() -> LogPosition:
            return carry_named(platform, source, deadline=scope.timeout)

        catalogue = catalogue_of(platform, source, tables)
        asked = two_step.TwoStepSource(PagedRows(reader), carry, catalogue, scope.method.view)
        return two_step.compare(platform, source, tables, asked, slices=scope.shares)
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(source, table, str(error), method="two-step") for table in tables}


def _refuse_without_marker(source: UnaskedSource) -> None:
    if kind_of(source).database is None and source.reconciliation.marker is None:
        raise DatabaseError(
            f"source {source.name} declares no marker table, so nobody knows when the lake has what its rows show: make one with "
            "a column id varchar(100) primary key, declare it (reconciliation: {marker: schema.table}), and cdc apply"
        )
