"""The silver assets: each table's current state, folded from what bronze has committed.

All tables of the step are worked at the same time, each in a Spark Connect session of its own. Column types
come from the source's catalogue, one query for all tables; when the source cannot be asked, silver waits, since
a guess about types would be a guess about data. A source of topics declares them.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.assets.columns import source_columns
from cdc_assets.assets.each_table import each_table, selected_tables
from cdc_assets.assets.record_form import catalogue_of, record_form
from cdc_assets.assets.specs import table_spec
from cdc_assets.connectors.postgresql import UNAVAILABLE_VALUE
from cdc_assets.errors import DatabaseError, HistoryWithoutKeyError
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.delta_log import bronze_committed, silver_rows
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from spark.specs import JobResult, SilverSpec


def build_silver_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @dg.multi_asset(
        specs=[table_spec("silver", source, table) for table in source.tables], name=f"silver_{source.name}", can_subset=True
    )
    def silver(context: dg.AssetExecutionContext, platform: Platform) -> Iterator[dg.MaterializeResult]:
        from spark import history as history_job
        from spark import silver as silver_job

        tables = selected_tables(context, "silver", source)
        # In this order: what bronze holds by now was written under the catalogue that is read next, or an older one.
        committed = bronze_committed(names.bronze_path(platform.lake, source))
        catalogue = catalogue_of(platform, source, tables)

        def fold(table: Table) -> "JobResult | None":
            if table.id not in catalogue:
                raise DatabaseError(f"the database of source {source.name} has no table {table.name} any more")
            if committed is None:
                return None
            with table_lock("silver", source.name, names.table_name(table)):
                spec = silver_spec(platform.lake, source, table, catalogue[table.id])
                spec = replace(spec, folded_limit=committed.version)
                result = platform.spark().run(silver_job.run, spec)
                if table.history == "scd2":
                    platform.spark().run(history_job.run, history_spec(platform.lake, source, table, spec))
                return result

        for table, result in each_table("silver", tables, fold):
            if result is None:
                context.log.info("%s: bronze holds nothing yet", table.name)
                continue
            yield dg.MaterializeResult(
                asset_key=dg.AssetKey(names.asset_key("silver", source, table)),
                metadata=_metadata(platform.lake, source, table, catalogue[table.id], result),
            )

    return silver


def silver_spec(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> SilverSpec:
    """What the job needs, from the declaration and the catalogue."""
    return SilverSpec(
        source=source.name,
        table=names.table_name(table),
        bronze_path=names.bronze_path(lake, source),
        path=names.silver_path(lake, source, table),
        columns=source_columns(source, table, found),
        keys=table.keys or found.primary_key,
        unavailable=UNAVAILABLE_VALUE,
        schema_changes=(table.schema_changes or source.schema_changes).model_dump(),
        renamed=table.renamed,
        **record_form(source, table),
        deletes=table.deletes,
        truncate=table.truncate,
        quarantine_path=names.quarantine_path(lake, source, table),
        quarantine_limit=table.quarantine.max_records,
    )


def history_spec(lake: str, source: BaseSource, table: Table, silver: SilverSpec) -> SilverSpec:
    """The same for the table of all versions.

    Raises:
        HistoryWithoutKeyError: nothing tells which rows are versions of one.
    """
    if not silver.keys:
        raise HistoryWithoutKeyError(f"{source.name}/{silver.table}: history: scd2 needs a key; declare the table's keys")
    tracked = table.track_history_column_list
    if table.track_history_except_column_list:
        left_out = {*table.track_history_except_column_list, *silver.keys}
        tracked = tuple(c.name for c in silver.columns if c.name not in left_out)
    return replace(silver, path=names.history_path(lake, source, table), track_history=tracked)


def _metadata(lake: str, source: BaseSource, table: Table, found: CatalogueTable, result: JobResult) -> dict[str, Any]:
    bronze = dg.AssetKey(names.asset_key("bronze", source, table))
    columns = [c for c in found.columns if c.name not in table.except_column_list]
    return {
        "dagster/row_count": silver_rows(names.silver_path(lake, source, table)) or 0,
        "dagster/column_schema": dg.TableSchema(
            [dg.TableColumn(c.name, c.type, constraints=dg.TableColumnConstraints(nullable=c.nullable)) for c in columns]
        ),
        "dagster/column_lineage": dg.TableColumnLineage(
            {c.name: [dg.TableColumnDep(asset_key=bronze, column_name="value")] for c in columns}
        ),
        "cdc/delta_version": -1 if result.version is None else result.version,
        "cdc/events_folded": result.rows_read,
        "cdc/rows_inserted": result.rows_inserted,
        "cdc/rows_updated": result.rows_updated,
        "cdc/rows_deleted": result.rows_deleted,
        "cdc/records_quarantined": result.detail.get("quarantined", 0),
        "cdc/events_by_op": dg.MetadataValue.json(dict(result.by_op)),
        "cdc/keys": ", ".join(table.keys or found.primary_key) or "none: appended",
        "cdc/seconds": round(result.seconds, 3),
        "cdc/events_per_second": round(result.rows_read / result.seconds) if result.seconds else 0,
    }
