"""The mirror check: nothing that the core cluster held was lost on its way into the lake's, and nothing is about to be.

With `topics: {on_gap: resnapshot}` the check repairs what it finds.
"""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.errors import CdcAssetsError
from cdc_assets.mirroring.loss_detection import MirrorState, mirror_states
from cdc_assets.mirroring.repair import plan, repair
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

NAME = "nothing_lost"


def mirror_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(NAME, "mirror", source, table)


def build_mirror_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    checks = {mirror_key(source, table): table for table in source.tables}
    description = "No record, and no whole topic, was removed before MirrorMaker had copied it."

    @table_checks("mirrors", source, checks, description)
    def mirrors(context: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        states = {state.table: state for state in mirror_states(platform, source)}
        for key, table in wanted.items():
            state = states[names.table_name(table)]
            if state.repair and source.topics.on_gap == "resnapshot":
                yield _repair(key, platform, source, state, context.log.info)
            else:
                yield _result(key, state)

    return mirrors


def _repair(
    key: dg.AssetCheckKey, platform: Platform, source: BaseSource, state: MirrorState, say: Callable[[str], None]
) -> dg.AssetCheckResult:
    """As `cdc repair mirror` does it; what was found is told, also where all is well again."""
    try:
        after = repair(platform, plan(platform, [source], state.topic), say)
    except CdcAssetsError as error:
        return check_result(key, False, f"{_summary(state)}. Not repaired: {error}", _metadata(state))
    if after.repair:
        return _result(key, after)
    return check_result(key, True, f"Was, until the table was read again: {_summary(state)}", _metadata(state))


def _result(key: dg.AssetCheckKey, state: MirrorState) -> dg.AssetCheckResult:
    red = any(finding.red for finding in state.findings)
    description = f"{_summary(state)}. Repair: {state.repair}" if state.repair else _summary(state)
    severity = dg.AssetCheckSeverity.ERROR if red else dg.AssetCheckSeverity.WARN
    return check_result(key, not state.findings, description, _metadata(state), severity=severity)


def _summary(state: MirrorState) -> str:
    return "; ".join(finding.message for finding in state.findings) or "All that the topic held is copied, or waits to be."


def _metadata(state: MirrorState) -> dict[str, Any]:
    lost = [
        dg.TableRecord(
            {
                "topic": state.topic,
                "partition": "" if finding.partition is None else str(finding.partition),
                "from": "" if finding.lost is None else str(finding.lost[0]),
                "to": "" if finding.lost is None else str(finding.lost[1]),
                "what": finding.kind,
            }
        )
        for finding in state.findings
        if finding.red
    ]
    return {
        "cdc/state": state.state,
        "cdc/lag": state.lag,
        **({"cdc/lost": dg.MetadataValue.table(lost), "cdc/repair": state.repair or "none"} if lost else {}),
        "cdc/mirror": dg.MetadataValue.json(state.to_json()),
    }
