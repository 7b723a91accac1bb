"""The ledger's checks: every event of every window, hop by hop, and what came late. They read the ledger and count nothing.

| check | compares, per event-time window and op |
|---|---|
| topic_mirror | committed records in the topic = in the mirror |
| mirror_bronze | in the mirror = in bronze |
| bronze_fates | in bronze = applied + superseded + older + ignored + quarantined + redriven + dropped |
| late_events | nothing: how many events came after their window had closed, and how late |
"""

from collections.abc import Iterator

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.assets.ledger import markdown
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.ledger.balance import HOPS, SHOWN, hops
from cdc_assets.ledger.read import SourceLedger, WindowCount, places
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_committed

LATE = "late_events"
_DESCRIPTIONS = {
    "topic_mirror": "In every event-time window, by op: committed records in the topic = in the mirror.",
    "mirror_bronze": "In every event-time window, by op: records in the mirror = in bronze.",
    "bronze_fates": "In every event-time window, by op: records in bronze = the sum of their fates in silver.",
    LATE: "How many events came after their window was closed, and how late.",
}
WARN = dg.AssetCheckSeverity.WARN


def ledger_keys(source: BaseSource, table: Table) -> list[dg.AssetCheckKey]:
    """The keys of a table's checks."""
    kept = HOPS if names.is_mirrored(source) else HOPS[1:]
    return [key_of_check(name, "ledger", source, table) for name in (*kept, LATE)]


def keys_without_ledger(lake: str, source: BaseSource) -> set[dg.AssetCheckKey]:
    """The checks of tables that have no ledger yet: they have nothing to judge until the source's ledger job has run."""
    found = places(lake, source)
    return {key for table in source.tables if names.table_name(table) not in found for key in ledger_keys(source, table)}


def build_ledger_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    keys = [key for table in source.tables for key in ledger_keys(source, table)]
    specs = [dg.AssetCheckSpec(k.name, asset=k.asset_key, description=_DESCRIPTIONS[k.name], blocking=True) for k in keys]

    @dg.multi_asset_check(name=names.op_name("ledger_checks", source), specs=specs, can_subset=True)
    def ledger_checks(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
        found = SourceLedger(platform.lake, source)
        for table in source.tables:
            wanted = [k for k in ledger_keys(source, table) if k in context.selected_asset_check_keys]
            if wanted:
                yield from results(platform.lake, source, table, wanted, found)

    return ledger_checks


def results(
    lake: str, source: BaseSource, table: Table, wanted: list[dg.AssetCheckKey], ledger: SourceLedger
) -> Iterator[dg.AssetCheckResult]:
    """Of one table, as its ledger stands at its place in it."""
    place = ledger.place(table)
    if place is None:
        # A count that was never made is no success where there was something to count.
        empty = silver_committed(names.silver_path(lake, source, table)) is None
        count = f"./cdc ledger {source.name}/{names.table_name(table)} --count"
        text = "silver has folded nothing yet" if empty else f"nothing is counted yet: {count}"
        for key in wanted:
            yield check_result(key, empty, text, {}, severity=WARN)
        return
    windows = ledger.windows(table)
    found = {hop.name: hop for hop in hops(windows, place, mirrored=names.is_mirrored(source))}
    for key in wanted:
        if key.name == LATE:
            yield _late(key, source, windows)
            continue
        hop = found[key.name]
        metadata = {"cdc/left": -1 if hop.left is None else hop.left, "cdc/right": -1 if hop.right is None else hop.right}
        shown = {"cdc/differing_windows": dg.MetadataValue.md(markdown(list(hop.differing[:SHOWN])))} if hop.differing else {}
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
    shown = {"cdc/changed_windows": dg.MetadataValue.md(markdown(changed[-SHOWN:]))} if changed else {}
    declared = source.ledger
    changes = f"{quantity(late + too_late, 'event')} changed {quantity(len(changed), 'closed window')}"
    text = f"{changes}, up to {by:.0f} s after their end"
    if too_late:
        text += f"; {too_late} of them later than allowed_lateness"
    passed = not too_late or declared.late == "accept"
    severity = dg.AssetCheckSeverity.ERROR if declared.late == "fail" else WARN
    return check_result(key, passed, text if changed else "no event came late", {**metadata, **shown}, severity=severity)
