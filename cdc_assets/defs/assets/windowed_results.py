"""The windowed results: figures of a table's rows by windows of event time, each declaration an asset behind its silver table.

One step for all of a source. What a run has said anew, and taken back, is in its metadata by how late it was.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from cdc_assets import names, settings
from cdc_assets.defs.keys import asset_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.quantity import quantity
from cdc_assets.registry.durations import format_duration
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_rows, version_after
from cdc_assets.windowed.refine_windows import TableWindows, refine, windows_of
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
                yield dg.MaterializeResult(asset_key=key, metadata=_metadata(platform.lake, windows, result))

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


def _metadata(lake: str, windows: TableWindows, result: JobResult) -> dict[str, Any]:
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
