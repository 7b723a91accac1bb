"""The bronze, silver and windows assets: each committed record once, and the current state that is folded of them.

Bronze is one Kafka read and one Delta commit for all tables of the step. Ranges are worked out here, from the log and the topics
as they are now, never from what a sensor saw. A table whose topic contradicts the log fails by itself, or is read again
(`topics: {on_gap: resnapshot}`).

Silver folds all tables of the step at the same time, small ones in one Spark job (cdc_assets.chain.silver_fold). Column
types come from the source's catalogue, one query for all; when the source cannot be asked, silver waits, since a guess about
types would be a guess about data. A source of topics declares them.

Windowed results stand behind silver: figures of a table's rows by windows of event time, one asset a declaration. A run's
metadata has what it said anew and took back, by how late it was. `windows_equal_batch` compares with one batch over the same
rows; `windows_equal_source` with the source's own SQL, on a rhythm of its own, since it costs the source a pass over the table.
A difference counts once it was seen twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from cdc_assets.capture.source_columns import source_columns
from cdc_assets.chain.bronze_append import AppendedTable, append, look, table_news
from cdc_assets.chain.fold_specs import catalogue_or_last_known, fold_refusals
from cdc_assets.chain.silver_fold import Results, fold_others, preview
from cdc_assets.chain.table_reload import close_gap
from cdc_assets.chain.windowed_results import (
    BatchComparison,
    TableWindows,
    compare_with_batch,
    compare_with_source,
    refine,
    windows_of,
)
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.delta_log import bronze_committed, silver_rows, version_after
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.schema_ledger import LakeColumn, lake_columns, ledger_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.defs.asset_specs import asset_key, silver_version
from cdc_assets.defs.asset_steps import CheckRun, TableMetadata, check_step, table_step
from cdc_assets.defs.check_results import Evidence, check_result, shorten
from cdc_assets.defs.check_specs import WINDOWS_EQUAL_BATCH, WINDOWS_EQUAL_SOURCE
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.schema_and_fresh_checks import schema_news
from cdc_assets.defs.volumetry_checks import quarantine_evaluation
from cdc_assets.registry import names, settings
from cdc_assets.registry.display_text import in_markdown
from cdc_assets.registry.errors import CdcAssetsError, FailuresError
from cdc_assets.registry.field_types import TableId, format_duration
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.specs import Column, JobResult

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def build_bronze_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @table_step("bronze", source)
    def bronze(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        tables = sorted(tables, key=lambda table: table.name)
        with ExitStack() as locks:
            for table in tables:  # in one order, so that two runs cannot wait for each other
                locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
            yield from append_news(context, platform, source, tables)

    return bronze


def append_news(context: dg.AssetExecutionContext, platform: Platform, source: BaseSource, tables: list[Table]) -> TableMetadata:
    """Append what the tables' topics hold beyond bronze, up to the last stable offsets of this moment."""
    topics = look(Chain(platform, source), tables)
    failures = {_short(source, tables, topic): text for topic, text in topics.missing.items()}
    for topic, text in topics.gaps.items():
        try:
            if source.topics.on_gap == "resnapshot":
                context.log.warning("%s", text)
            topics.slices[topic] = close_gap(Chain(platform, source), topics, topic, context.log.info)
        except CdcAssetsError as error:
            failures[_short(source, tables, topic)] = str(error) if str(error) == text else f"{text}; {error}"
    seconds, batches = append(Chain(platform, source), topics, context.run.run_id, context.log.info)
    for done in table_news(Chain(platform, source), topics, seconds, batches):
        yield done.table, metadata_of_append(done)
    if failures:
        raise FailuresError.of_tables("bronze", failures)


def metadata_of_append(done: AppendedTable) -> dict[str, Any]:
    """What Dagster shows of a table after an append."""
    return {
        "dagster/row_count": done.records,
        "cdc/records_appended": done.added,
        "cdc/offset_ranges": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(done.ranges.items())}),
        "cdc/offsets_read": done.offsets,
        "cdc/epoch": done.epoch,
        "cdc/delta_version": done.version,
        "cdc/batches": done.batches,
        "cdc/seconds": round(done.seconds, 3),
        "cdc/records_per_second": round(done.added / done.seconds) if done.seconds else 0,
        **({"cdc/read_again_after": done.gap} if done.gap else {}),
    }


def _short(source: BaseSource, tables: list[Table], topic: str) -> str:
    return next(names.table_name(table) for table in tables if names.lake_topic(source, table) == topic)


_BEFORE_THE_BACKUP = {"dagster/priority": "1"}
"""Of two steps behind bronze the backup's would run first, by its name, and a change would wait for it on its way to silver."""


def build_silver_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    def version_of(lake: str, table: Table, _: Mapping[str, Any], told: str | None) -> str | None:
        return silver_version(lake, source, table, told)

    @table_step("silver", source, tags=_BEFORE_THE_BACKUP, version_of=version_of)
    def silver(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        # In this order: what bronze holds by now was written under the catalogue that is read next, or an older one.
        committed = bronze_committed(names.bronze_path(platform.lake, source))
        catalogue = catalogue_or_last_known(Chain(platform, source), tables, context.log.warning)

        if committed is None:
            context.log.info("bronze of source %s holds nothing yet", source.name)
            return
        refusals: dict[TableId, str] = {}
        try:
            for table, results in fold_others(Chain(platform, source), tables, catalogue, committed.version, context.log.info):
                yield table, metadata_of_fold(platform.lake, source, table, catalogue[table.id], results)
                if results[0].detail.get("quarantined"):
                    # Its check has a rhythm of its own, and the table is red from now on: told behind its materialization, and
                    # not at the step's end, which may be far.
                    context.instance.report_runless_asset_event(quarantine_evaluation(platform.lake, source, table))
        except FailuresError as error:
            failed = [table for table in tables if names.table_name(table) in error.failures]
            refusals = fold_refusals(platform.lake, source, failed, catalogue)
            raise
        finally:
            for event in schema_news(context.instance, platform.lake, source, tables, refusals):
                context.instance.report_runless_asset_event(event)

    return silver


def metadata_of_fold(lake: str, source: BaseSource, table: Table, found: CatalogueTable, results: Results) -> dict[str, Any]:
    """What Dagster shows of a table after a fold; `found` is what it was folded by."""
    result, versions = results
    metadata = _metadata(lake, source, table, found, result)
    return metadata | (_of_history(lake, source, table, found, versions) if versions else {})


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

    return dg.TableSchema([to_column(column) for column in held])


def _columns_of_silver(lake: str, source: BaseSource, table: Table, found: CatalogueTable) -> Sequence[Column]:
    # As silver has them by the table's policy: what is kept of a dropped column, aside for another type, or left out.
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


def build_windows_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One subsettable step for all that the source declares."""
    declared = {dg.AssetKey(windows.key): windows for windows in windows_of(source)}

    @dg.multi_asset(
        specs=[_spec(key, windows) for key, windows in declared.items()], name=names.op_name("windows", source), can_subset=True
    )
    def step(context: dg.AssetExecutionContext, platform: PlatformResource) -> Iterator[dg.MaterializeResult]:
        for key, windows in declared.items():
            if key in context.selected_asset_keys:
                result = refine(platform, windows)
                if changed := result.detail.get("panes_after_final", 0):
                    context.log.warning("%s: %s said or taken back after their windows were final", windows.name, changed)
                yield dg.MaterializeResult(asset_key=key, metadata=_windows_metadata(platform.lake, windows, result))

    return step


def _spec(key: dg.AssetKey, windows: TableWindows) -> dg.AssetSpec:
    source, table, declared = windows.source, windows.table, windows.declared
    by = f" and {', '.join(declared.by)}" if declared.by else ""
    of_what = f"table {table.name} by {format_duration(declared.size)} of event time{by}"
    figures = quantity(len(declared.measures), "figure")
    return dg.AssetSpec(
        key,
        deps=[asset_key("silver", source, table)],
        description=f"{figures} of {of_what}, refined by late rows.",
        group_name=source.name,
        kinds={"delta", "spark", "windows"},
        owners=table.owners or source.owners,
        tags={"layer": "windows", "source": source.name, "table": windows.name},
        metadata={
            "dagster/table_name": names.quote_parts(("windows", source.name, windows.name)),
            "dagster/uri": windows.spec(settings.lake()).path,
            "dagster/storage_kind": "delta",
            "cdc/panes_uri": windows.spec(settings.lake()).panes_path,
        },
    )


def _windows_metadata(lake: str, windows: TableWindows, result: JobResult) -> dict[str, Any]:
    path = windows.spec(lake).path
    panes = {name.removeprefix("panes_"): count for name, count in result.detail.items() if name.startswith("panes_")}
    watermark = result.detail.get("watermark")
    at = None if watermark is None else (_EPOCH + timedelta(microseconds=watermark)).isoformat()
    return {
        "dagster/row_count": silver_rows(path) or 0,
        "cdc/delta_version": version_after(path, result),
        "cdc/silver_version": result.detail.get("silver_version", -1),
        "cdc/watermark": at or "none: no row has an event time",
        "cdc/results_inserted": result.rows_inserted,
        "cdc/results_refined": result.rows_updated,
        "cdc/results_deleted": result.rows_deleted,
        "cdc/panes": dg.MetadataValue.json(panes),
        "cdc/rows_without_time": result.detail.get("rows_without_time", 0),
        "cdc/seconds": result.seconds,
    }


@check_step("checks_windows", WINDOWS_EQUAL_BATCH)
def batch_check(run: CheckRun[TableWindows]) -> Iterator[dg.AssetCheckResult]:
    """Each result beside what one batch over the same version of silver computes."""
    for key, windows in run.selected.items():
        comparison = compare_with_batch(run.chain.platform, windows)
        metadata = {
            "cdc/results": comparison.results,
            "cdc/results_differing": comparison.differing,
            **({} if comparison.silver_version is None else {"cdc/silver_version": comparison.silver_version}),
        }
        sentence = _sentence(comparison, windows.spec(run.chain.platform.lake).path)
        yield check_result(key, comparison.differing == 0, sentence, metadata)


def _sentence(found: BatchComparison, path: str) -> str:
    if found.silver_version is None:
        return "nothing is in silver yet"
    results_text = f"{quantity(found.results, 'result')} of silver's version {found.silver_version}"
    if not found.differing:
        return f"{results_text}: as one batch computes them"
    return f"{results_text}: {found.differing} differ from one batch; remove {path} and {path}__panes, and materialize the asset"


_SHOWN = 20


@check_step("sums_windows", WINDOWS_EQUAL_SOURCE)
def sums_check(run: CheckRun[TableWindows]) -> Iterator[dg.AssetCheckResult]:
    """Each result beside what the source's SQL computes; what could not be asked warns."""
    for key, windows in run.selected.items():
        try:
            evidence, severity = _evidence(windows, run.chain.platform.lake), dg.AssetCheckSeverity.ERROR
        except CdcAssetsError as error:
            evidence, severity = (False, f"inconclusive: {error}", {}), dg.AssetCheckSeverity.WARN
        yield check_result(key, *evidence, severity=severity)


def _evidence(windows: TableWindows, lake: str) -> Evidence:
    comparison = compare_with_source(windows, lake)
    metadata = {
        "cdc/results": comparison.results,
        "cdc/results_differing": len(comparison.differing),
        "cdc/results_differing_now": comparison.unconfirmed,
        **(
            {"cdc/differing": dg.MetadataValue.json([shorten(key) for key in comparison.differing[:_SHOWN]])}
            if comparison.differing
            else {}
        ),
    }
    compared = f"{quantity(comparison.results, 'result')} by SQL over the source"
    if comparison.differing:
        return (
            False,
            f"{compared}: {quantity(len(comparison.differing), 'result')} differ, and did at the look before",
            metadata,
        )
    more = (
        f"; {quantity(comparison.unconfirmed, 'result')} differ at this look, and are looked at again"
        if comparison.unconfirmed
        else ""
    )
    return True, f"{compared}: equal{more}", metadata
