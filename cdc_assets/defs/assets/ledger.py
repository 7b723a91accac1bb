"""The ledger assets: each table's events counted by window and op in every link, and their fates.

One Spark job and one Delta commit for all tables of the step; what it found is the asset's metadata.
"""

import base64
from datetime import timedelta
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.assets.table_step import TableMetadata, table_step
from cdc_assets.ledger.count import count_events
from cdc_assets.ledger.plot import can_plot, png
from cdc_assets.ledger.read import SourceLedger, WindowCount, total
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.shown_text import in_markdown
from spark.ledger.terms import FATES, LINKS

_SHOWN = 48


def build_ledger_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @table_step("ledger", source, work="count")
    def ledger(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        result = count_events(platform, source, tables)
        context.log.info("%d events booked in %.2f s", result.rows_read, result.seconds)
        found = SourceLedger(platform.lake, source)
        for table in tables:
            yield table, metadata_of(found, source, table)

    return ledger


def metadata_of(found: SourceLedger, source: BaseSource, table: Table) -> dict[str, Any]:
    """What Dagster shows of a table's ledger: sums, the last windows, and where matplotlib is installed their picture."""
    place = found.place(table)
    if place is None:
        return {"cdc/events": 0}
    hours = found.windows(table, window="1h")
    sums = total(hours)
    metadata: dict[str, Any] = {
        "cdc/events": sums["bronze"] or 0,
        "cdc/late_events": sum(w.late + w.too_late for w in hours),
        "cdc/late_by_seconds": max((w.late_by for w in hours), default=0.0),
        "cdc/silver_version": place.silver_version,
        "cdc/counts": dg.MetadataValue.json(sums),
        "cdc/last_windows": dg.MetadataValue.md(markdown(hours[-_SHOWN:])),
    }
    if can_plot() and hours:
        metadata["cdc/plot"] = dg.MetadataValue.md(_picture(source, table, hours))
    return metadata


def _picture(source: BaseSource, table: Table, hours: list[WindowCount]) -> str:
    """The last week by hours, small: metadata is stored with every materialization."""
    first = hours[-1].start - timedelta(days=7)
    title = f"{source.name}/{names.table_name(table)}, windows of 1h (UTC)"
    image = png([w for w in hours if w.start >= first], title=title, window="1h", width=8.0, dpi=80)
    return f"![{in_markdown(title)}](data:image/png;base64,{base64.b64encode(image).decode()})"


def markdown(windows: list[WindowCount]) -> str:
    """Windows as a table for people, newest first."""
    columns = ("window", "op", *LINKS, *FATES, "late", "late by s")
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    for found in reversed(windows):
        counts = ["?" if (v := found.counts[name]) is None else str(v) for name in (*LINKS, *FATES)]
        late = [str(found.late + found.too_late), f"{found.late_by:.0f}"]
        lines.append(" | ".join([f"{found.start:%Y-%m-%d %H:%M}", in_markdown(found.op), *counts, *late]))
    return "\n".join(lines)
