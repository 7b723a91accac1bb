"""The check `windows_equal_batch`: results that have followed silver run by run are those of one batch over the same rows."""

from collections.abc import Iterator

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.windowed.refine_windows import BatchComparison, compare_with_batch, windows_of

NAME = "windows_equal_batch"
_DESCRIPTION = "Every result, and whether it is final, is what one batch over the same rows of silver computes."


def build_windows_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all that the source declares."""
    checks = {dg.AssetCheckKey(dg.AssetKey(windows.key), NAME): windows for windows in windows_of(source)}
    specs = [dg.AssetCheckSpec(NAME, asset=key.asset_key, description=_DESCRIPTION, blocking=True) for key in checks]

    @dg.multi_asset_check(name=names.op_name("checks_windows", source), specs=specs, can_subset=True)
    def step(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> Iterator[dg.AssetCheckResult]:
        for key, windows in checks.items():
            if key in context.selected_asset_check_keys:
                found = compare_with_batch(platform, windows)
                metadata = {
                    "cdc/results": found.results,
                    "cdc/results_differing": found.differing,
                    **({} if found.silver_version is None else {"cdc/silver_version": found.silver_version}),
                }
                yield check_result(key, found.differing == 0, _sentence(found, windows.spec(platform.lake).path), metadata)

    return step


def _sentence(found: BatchComparison, path: str) -> str:
    if found.silver_version is None:
        return "nothing is in silver yet"
    held = f"{quantity(found.results, 'result')} of silver's version {found.silver_version}"
    if not found.differing:
        return f"{held}: as one batch computes them"
    return f"{held}: {found.differing} differ from one batch; remove {path} and {path}__panes, and materialize the asset"
