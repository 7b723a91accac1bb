"""The mirror check: nothing that the core cluster held was lost on its way into the lake's, and nothing is about to be."""

from collections.abc import Iterator

import dagster as dg

from cdc_assets import names
from cdc_assets.checks.result import check_result
from cdc_assets.mirroring.watch import MirrorState, mirror_states
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.platform import Platform

NAME = "nothing_lost"


def mirror_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return dg.AssetCheckKey(dg.AssetKey(names.asset_key("mirror", source, table)), NAME)


def build_mirror_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    specs = [
        dg.AssetCheckSpec(
            NAME,
            asset=mirror_key(source, table).asset_key,
            description="No record was removed from the topic, nor the topic itself, before MirrorMaker had copied it.",
            blocking=True,
        )
        for table in source.tables
    ]

    @dg.multi_asset_check(name=f"mirrors_{source.name}", specs=specs, can_subset=True)
    def mirrors(context: dg.AssetCheckExecutionContext, platform: Platform) -> Iterator[dg.AssetCheckResult]:
        states = {state.table: state for state in mirror_states(platform, source)}
        for table in source.tables:
            key = mirror_key(source, table)
            if key in context.selected_asset_check_keys:
                yield _result(key, states[names.table_name(table)])

    return mirrors


def _result(key: dg.AssetCheckKey, state: MirrorState) -> dg.AssetCheckResult:
    red = any(finding.red for finding in state.findings)
    told = "; ".join(finding.message for finding in state.findings) or "All that the topic held is copied, or waits to be."
    description = f"{told}. Repair: {state.repair}" if state.repair else told
    metadata = {"cdc/state": state.state, "cdc/mirror": dg.MetadataValue.json(state.to_json())}
    severity = dg.AssetCheckSeverity.ERROR if red else dg.AssetCheckSeverity.WARN
    return check_result(key, not state.findings, description, metadata, severity=severity)
