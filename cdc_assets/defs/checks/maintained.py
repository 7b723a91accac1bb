"""The check of a source's maintenance: red when its tables grow worse faster than maintenance mends them."""

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource

NAME = "maintained"
_SHOWN = 5
_FIGURES = ("files", "small_files", "bytes", "dead_rows", "commits", "log_bytes")


def key_of_maintained(source: BaseSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(NAME, names.MAINTENANCE, source)


def build_maintained_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One check per source; what it looks at are logs, in no service."""
    key = key_of_maintained(source)
    description = "Files, gone rows and logs of the tables stay small."
    spec = dg.AssetCheckSpec(NAME, asset=key.asset_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.op_name("maintained", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        from cdc_assets.maintenance.behind import what_is_behind
        from cdc_assets.maintenance.maintain_source import plan_source

        found = {table.name: plan for table, plan in plan_source(platform, source)}
        behind = [f"{name}: {sentence}" for name, plan in found.items() for sentence in what_is_behind(plan)]
        figures = [plan.figures for plan in found.values() if plan.figures is not None]
        metadata = {f"cdc/{name}": sum(getattr(each, name) for each in figures) for name in _FIGURES}
        said = f"{quantity(len(found), 'table')} as they should be"
        more = f", and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
        text = "; ".join(behind[:_SHOWN]) + more if behind else said
        return check_result(key, not behind, text, metadata)

    return check
