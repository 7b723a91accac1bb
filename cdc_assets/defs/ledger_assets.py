"""The ledger assets with their checks: every event of every window, hop by hop, and what came late.

One Spark job and one Delta commit count all tables of the step, and what they found is the asset's metadata. The checks
read the ledger and count nothing.

| check | compares, per event-time window and op |
|---|---|
| topic_mirror | committed records in the topic = in the mirror |
| mirror_bronze | in the mirror = in bronze |
| bronze_fates | in bronze = applied + superseded + older + ignored + quarantined + redriven + dropped |
| late_events | nothing: how many events came after their window had closed, and how late |
"""

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import dagster as dg

from cdc_assets.clients.delta_log import silver_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_steps import CheckRun, TableMetadata, check_step, table_step
from cdc_assets.defs.check_results import check_result
from cdc_assets.defs.check_specs import BRONZE_FATES, LATE_EVENTS, MIRROR_BRONZE, TOPIC_MIRROR
from cdc_assets.proof.event_ledger import SHOWN, SourceLedger, WindowCount, count_events, hops, places, total
from cdc_assets.proof.ledger_plot import can_plot, png
from cdc_assets.registry import names
from cdc_assets.registry.display_text import in_markdown
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.proof.ledger_contract import FATES, LINKS

_SHOWN = 48


def build_ledger_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @table_step("ledger", source, work="count")
    def ledger(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        result = count_events(Chain(platform, source), tables)
        context.log.info("%d events booked in %.2f s", result.rows_read, result.seconds)
        source_ledger = SourceLedger(platform.lake, source)
        for table in tables:
            yield table, ledger_metadata(source_ledger, source, table)

    return ledger


def ledger_metadata(found: SourceLedger, source: BaseSource, table: Table) -> dict[str, Any]:
    """What Dagster shows of a table's ledger: sums, the last windows, and where matplotlib is installed their picture."""
    ledger_place = found.place(table)
    if ledger_place is None:
        return {"cdc/events": 0}
    hours = found.windows(table, window="1h")
    sums = total(hours)
    metadata: dict[str, Any] = {
        "cdc/events": sums["bronze"] or 0,
        "cdc/late_events": sum(w.late + w.too_late for w in hours),
        "cdc/late_by_seconds": max((w.late_by for w in hours), default=0.0),
        "cdc/silver_version": ledger_place.silver_version,
        "cdc/counts": dg.MetadataValue.json(sums),
        "cdc/last_windows": dg.MetadataValue.md(ledger_markdown(hours[-_SHOWN:])),
    }
    if can_plot() and hours:
        metadata["cdc/plot"] = dg.MetadataValue.md(_picture(source, table, hours))
    return metadata


def _picture(source: BaseSource, table: Table, hours: list[WindowCount]) -> str:
    # The last week by hours, small: metadata is stored with every materialization.
    first = hours[-1].start - timedelta(days=7)
    title = f"{source.name}/{names.table_name(table)}, windows of 1h (UTC)"
    image = png([w for w in hours if w.start >= first], title=title, window="1h", width=8.0, dpi=80)
    return f"![{in_markdown(title)}](data:image/png;base64,{base64.b64encode(image).decode()})"


def ledger_markdown(windows: list[WindowCount]) -> str:
    """Windows as a table for people, newest first."""
    columns = ("window", "op", *LINKS, *FATES, "late", "late by s")
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    for window in reversed(windows):
        counts = ["?" if (v := window.counts[name]) is None else str(v) for name in (*LINKS, *FATES)]
        late = [str(window.late + window.too_late), f"{window.late_by:.0f}"]
        lines.append(" | ".join([f"{window.start:%Y-%m-%d %H:%M}", in_markdown(window.op), *counts, *late]))
    return "\n".join(lines)


WARN = dg.AssetCheckSeverity.WARN


_LEDGER_SPECS = (TOPIC_MIRROR, MIRROR_BRONZE, BRONZE_FATES, LATE_EVENTS)


def ledger_keys(source: BaseSource, table: Table) -> list[dg.AssetCheckKey]:
    """The keys of a table's checks."""
    return [spec.key(source, table) for spec in _LEDGER_SPECS if table in spec.subjects(source)]


def keys_without_ledger(lake: str, source: BaseSource) -> set[dg.AssetCheckKey]:
    """The checks of tables that have no ledger yet: they have nothing to judge until the source's ledger job has run."""
    ledger_places = places(lake, source)
    return {key for table in source.tables if names.table_name(table) not in ledger_places for key in ledger_keys(source, table)}


@check_step("ledger_checks", *_LEDGER_SPECS)
def ledger_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Each table's hops and late events, as its ledger has them; nothing is counted."""
    lake, source = run.chain.platform.lake, run.chain.source
    source_ledger = SourceLedger(lake, source)
    for table in source.tables:
        if keys := [key for key in ledger_keys(source, table) if key in run.selected]:
            yield from hop_results(lake, source, table, keys, source_ledger)


def hop_results(
    lake: str, source: BaseSource, table: Table, wanted: list[dg.AssetCheckKey], ledger: SourceLedger
) -> Iterator[dg.AssetCheckResult]:
    """Of one table, as its ledger stands at its place in it."""
    ledger_place = ledger.place(table)
    if ledger_place is None:
        # A count that was never made is no success where there was something to count.
        empty = silver_committed(names.silver_path(lake, source, table)) is None
        count = f"./cdc ledger {source.name}/{names.table_name(table)} --count"
        text = "silver has folded nothing yet" if empty else f"nothing is counted yet: {count}"
        for key in wanted:
            yield check_result(key, empty, text, {}, severity=WARN)
        return
    windows = ledger.windows(table)
    hops_by_name = {hop.name: hop for hop in hops(windows, ledger_place, mirrored=names.is_mirrored(source))}
    for key in wanted:
        if key.name == LATE_EVENTS.name:
            yield _late(key, source, windows)
            continue
        hop = hops_by_name[key.name]
        metadata = {"cdc/left": -1 if hop.left is None else hop.left, "cdc/right": -1 if hop.right is None else hop.right}
        shown = (
            {"cdc/differing_windows": dg.MetadataValue.md(ledger_markdown(list(hop.differing[:SHOWN])))} if hop.differing else {}
        )
        # What could not be counted is no difference, and stays so until the ledger is started anew: a warning.
        severity = WARN if hop.uncounted and not hop.differing else dg.AssetCheckSeverity.ERROR
        yield check_result(
            key, hop.balanced, hop.sentence(), {**metadata, **shown, "cdc/windows": len(windows)}, severity=severity
        )


def _late(key: dg.AssetCheckKey, source: BaseSource, windows: list[WindowCount]) -> dg.AssetCheckResult:
    late, too_late = sum(w.late for w in windows), sum(w.too_late for w in windows)
    by = max((w.late_by for w in windows if w.late or w.too_late), default=0.0)
    changed = [w for w in windows if w.late or w.too_late]
    metadata = {"cdc/late_events": late, "cdc/too_late_events": too_late, "cdc/late_by_seconds": by}
    shown = {"cdc/changed_windows": dg.MetadataValue.md(ledger_markdown(changed[-SHOWN:]))} if changed else {}
    declared = source.ledger
    changes = f"{quantity(late + too_late, 'event')} changed {quantity(len(changed), 'closed window')}"
    text = f"{changes}, up to {by:.0f} s after their end"
    if too_late:
        text += f"; {too_late} of them later than allowed_lateness"
    passed = not too_late or declared.late == "accept"
    severity = dg.AssetCheckSeverity.ERROR if declared.late == "fail" else WARN
    return check_result(key, passed, text if changed else "no event came late", {**metadata, **shown}, severity=severity)
