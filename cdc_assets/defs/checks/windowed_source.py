"""The check `windows_equal_source`: results are what the source's own SQL computes over its rows.

On a rhythm of its own, since it costs the source a pass over the table. A difference counts once it was seen twice.
"""

from collections.abc import Iterator

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.evidence import Evidence, shorten
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.errors import CdcAssetsError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.windowed.refine_windows import TableWindows, windows_of
from cdc_assets.windowed.source_windows import can_ask, compare_with_source

NAME = "windows_equal_source"
_DESCRIPTION = "Results are what SQL computes over the source's rows. A difference is one that was seen at two looks."
_SHOWN = 20


def windows_to_ask(source: BaseSource) -> dict[dg.AssetCheckKey, TableWindows]:
    """Those of the source that its SQL can compute, by the key of their check."""
    return {dg.AssetCheckKey(dg.AssetKey(windows.key), NAME): windows for windows in windows_of(source) if can_ask(windows)}


def build_windows_source_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all of the source."""
    checks = windows_to_ask(source)
    specs = [dg.AssetCheckSpec(NAME, asset=key.asset_key, description=_DESCRIPTION, blocking=True) for key in checks]

    @dg.multi_asset_check(name=names.op_name("sums_windows", source), specs=specs, can_subset=True)
    def step(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
        for key, windows in checks.items():
            if key in context.selected_asset_check_keys:
                try:
                    told, severity = _evidence(windows, platform.lake), dg.AssetCheckSeverity.ERROR
                except CdcAssetsError as error:
                    told, severity = (False, f"could not be compared: {error}", {}), dg.AssetCheckSeverity.WARN
                yield check_result(key, *told, severity=severity)

    return step


def _evidence(windows: TableWindows, lake: str) -> Evidence:
    found = compare_with_source(windows, lake)
    metadata = {
        "cdc/results": found.results,
        "cdc/results_differing": len(found.differing),
        "cdc/results_differing_now": found.unconfirmed,
        **(
            {"cdc/differing": dg.MetadataValue.json([shorten(key) for key in found.differing[:_SHOWN]])}
            if found.differing
            else {}
        ),
    }
    held = f"{quantity(found.results, 'result')} by SQL over the source"
    if found.differing:
        return False, f"{held}: {quantity(len(found.differing), 'result')} differ, and did at the look before", metadata
    more = f"; {quantity(found.unconfirmed, 'result')} differ at this look, and are looked at again" if found.unconfirmed else ""
    return True, f"{held}: equal{more}", metadata
