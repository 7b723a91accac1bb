"""The windowed results with their checks: figures of a table's rows by windows of event time.

Each declaration is an asset behind its silver table. What a run has said anew, and taken back, is in its metadata by how late it
was. `windows_equal_batch` compares with one batch over the same rows; `windows_equal_source` with what the source's own SQL
computes, on a rhythm of its own, since it costs the source a pass over the table. A difference counts once it was seen twice.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from cdc_assets.chain.windowed_results import (
    BatchComparison,
    TableWindows,
    compare_with_batch,
    compare_with_source,
    refine,
    windows_of,
)
from cdc_assets.clients.delta_log import silver_rows, version_after
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.defs.asset_steps import CheckRun, check_step
from cdc_assets.defs.check_results import Evidence, check_result, shorten
from cdc_assets.defs.check_specs import WINDOWS_EQUAL_BATCH, WINDOWS_EQUAL_SOURCE
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity
from spark.specs import JobResult

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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
