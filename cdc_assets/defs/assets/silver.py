"""The silver assets: each table's current state, folded from what bronze has committed.

All tables of the step are folded at the same time, small ones in one Spark job (cdc_assets.silver.fold_tables). Column types
come from the source's catalogue, one query for all tables; when the source cannot be asked, silver waits, since
a guess about types would be a guess about data. A source of topics declares them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.bronze.copies import take_out_copies
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.defs.checks.quarantine_count import quarantine_evaluation
from cdc_assets.defs.checks.schema import schema_news
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.told_changes import silver_version
from cdc_assets.errors import TableFailuresError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.delta_log import bronze_committed, silver_rows, version_after
from cdc_assets.resources.lake_columns import LakeColumn, lake_columns
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import ledger_of
from cdc_assets.shown_text import in_markdown
from cdc_assets.silver.fold_tables import Results, fold_others
from cdc_assets.silver.preview import preview
from cdc_assets.tables.columns import source_columns
from cdc_assets.tables.fold_refusals import fold_refusals
from cdc_assets.tables.fold_specs import catalogue_or_last_known
from spark.specs import Column, JobResult

_BEFORE_THE_BACKUP = {"dagster/priority": "1"}
"""Of two steps behind bronze the backup's would run first, by its name, and a change would wait for it on its way to silver."""


def build_silver_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    def version_of(lake: str, table: Table, _: Mapping[str, Any], told: str | None) -> str | None:
        return silver_version(lake, source, table, told)

    @table_step("silver", source, tags=_BEFORE_THE_BACKUP, version_of=version_of)
    def silver(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        take_out_copies(platform, source, context.log.warning)
        # In this order: what bronze holds by now was written under the catalogue that is read next, or an older one.
        committed = bronze_committed(names.bronze_path(platform.lake, source))
        catalogue = catalogue_or_last_known(platform, source, tables, context.log.warning)

        if committed is None:
            context.log.info("bronze of source %s holds nothing yet", source.name)
            return
        refusals: dict[TableId, str] = {}
        set_aside: list[Table] = []
        try:
            for table, results in fold_others(platform, source, tables, catalogue, committed.version, context.log.info):
                if results[0].detail.get("quarantined"):
                    set_aside.append(table)
                yield table, metadata_of_fold(platform.lake, source, table, catalogue[table.id], results)
        except TableFailuresError as error:
            failed = [table for table in tables if names.table_name(table) in error.failures]
            refusals = fold_refusals(platform.lake, source, failed, catalogue)
            raise
        finally:
            for event in schema_news(context.instance, platform.lake, source, tables, refusals):
                context.instance.report_runless_asset_event(event)
            for table in set_aside:
                # Its check has a rhythm of its own, and the table is red from now on.
                context.instance.report_runless_asset_event(quarantine_evaluation(platform.lake, source, table))

    return silver


def metadata_of_fold(lake: str, source: BaseSource, table: Table, found: CatalogueTable, results: Results) -> dict[str, Any]:
    """What Dagster shows of a table after a fold; `found` is what it was folded by."""
    result, versions = results
    told = _metadata(lake, source, table, found, result)
    return told | (_of_history(lake, source, table, found, versions) if versions else {})


def _of_history(lake: str, source: BaseSource, table: Table, found: CatalogueTable, result: JobResult) -> dict[str, Any]:
    path = names.history_path(lake, source, table)
    columns = _columns_of_silver(lake, source, table, found)
    return {
        "cdc/history_uri": path,
        "cdc/history_table": names.sql_text("history", source, table),
        "cdc/history_columns": dg.MetadataValue.table_schema(column_schema(lake_columns(path), columns, found)),
        "cdc/history_versions": silver_rows(path) or 0,
        "cdc/history_delta_version": version_after(path, result),
        "cdc/history_versions_added": result.rows_inserted,
        "cdc/history_versions_changed": result.rows_updated + result.rows_deleted,
        "cdc/history_keys_folded_again": result.detail.get("refolded_keys", 0),
        "cdc/history_seconds": round(result.seconds, 3),
    }


def _keys(table: Table, found: CatalogueTable) -> str:
    if table.without_key == "multiset":
        return "none: rows are known by all of their values"
    return ", ".join(table.keys or found.primary_key) or "none: appended"


_OUR_COLUMNS = {
    "_cdc_position": "the place of the event that made this row; texts in the order of the source's log",
    "_cdc_op": "what that event was: c created, u updated, r read by a snapshot, d deleted, t truncated",
    "_cdc_source_ts": "when the source committed it",
    "_cdc_tx_id": "the source's transaction",
    "_cdc_deleted": "the row is gone from the source",
    "_valid_from": "the position of the event that made the version",
    "_valid_to": "the position of the event that ended it; null while it holds",
    "_is_current": "whether the version holds",
}
"""As docs/how-to/read-tables.md has them."""


def column_schema(held: Sequence[LakeColumn], columns: Sequence[Column], found: CatalogueTable) -> dg.TableSchema:
    """The columns that a lake's table has, each with its type there, its type at the source beside that, and the comment that the
    source's database has of it; Dagster renders these as Markdown."""
    comments = {column.name: in_markdown(column.comment) for column in found.columns if column.comment}
    at_source = {column.name: column for column in columns}

    def to_column(each: LakeColumn) -> dg.TableColumn:
        theirs = at_source.get(each.name)
        if theirs is None:
            return dg.TableColumn(each.name, each.type, _OUR_COLUMNS.get(each.name))
        limits = dg.TableColumnConstraints(nullable=theirs.nullable, other=[f"at the source: {theirs.source_type}"])
        return dg.TableColumn(each.name, each.type, comments.get(each.name), limits)

    return dg.TableSchema([to_column(each) for each in held])


def _columns_of_silver(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> Sequence[Column]:
    """As silver has them by the table's policy: what is kept of a dropped column, aside for another type, or left out."""
    ledger = ledger_of(names.silver_path(lake, source, table))
    return ledger.columns if ledger else source_columns(source, table, found)


def _preview(path: str, source: BaseSource, table: Table) -> dict[str, Any]:
    shown = preview(path, table.sensitive, source.preview_rows)
    return {"cdc/preview": dg.MetadataValue.md(shown)} if shown else {}


def _metadata(lake: str, source: BaseSource, table: Table, found: CatalogueTable, result: JobResult) -> dict[str, Any]:
    bronze = asset_key("bronze", source, table)
    path = names.silver_path(lake, source, table)
    columns = _columns_of_silver(lake, source, table, found)
    return {
        "dagster/row_count": silver_rows(path) or 0,
        "dagster/column_schema": column_schema(lake_columns(path), columns, found),
        "dagster/column_lineage": dg.TableColumnLineage(
            {c.name: [dg.TableColumnDep(asset_key=bronze, column_name="value")] for c in columns}
        ),
        **_preview(path, source, table),
        "cdc/delta_version": version_after(path, result),
        "cdc/events_folded": result.rows_read,
        "cdc/rows_inserted": result.rows_inserted,
        "cdc/rows_updated": result.rows_updated,
        "cdc/rows_deleted": result.rows_deleted,
        "cdc/records_quarantined": result.detail.get("quarantined", 0),
        "cdc/late_events": result.detail.get("late_events", 0),
        "cdc/keys_folded_again": result.detail.get("refolded_keys", 0),
        "cdc/positions_remembered": result.detail.get("positions_remembered", 0),
        "cdc/events_by_op": dg.MetadataValue.json(dict(result.by_op)),
        "cdc/keys": _keys(table, found),
        "cdc/seconds": round(result.seconds, 3),
        "cdc/events_per_second": round(result.rows_read / result.seconds) if result.seconds else 0,
    }
