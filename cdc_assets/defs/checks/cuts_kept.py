"""The check of a source's cuts: red when the newest is older than declared, or one can be read no longer."""

from datetime import datetime, timezone

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.source_settings import Cuts

NAME = "cuts_kept"
_SHOWN = 5


def cuts_key(source: BaseSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(NAME, names.CUT, source)


def build_cuts_check(source: BaseSource) -> dg.AssetChecksDefinition:
    """One check per source that declares `cuts`; what it looks at are logs, in no service."""
    key, declared = cuts_key(source), source.cuts or Cuts()
    description = "The newest cut is as young as declared, and the kept ones can be read."
    spec = dg.AssetCheckSpec(NAME, asset=key.asset_key, description=description, blocking=True)

    @dg.multi_asset_check(name=names.op_name("cuts_kept", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        from cdc_assets.cuts.cut_manifest import read_cuts
        from cdc_assets.cuts.named_versions import what_is_wrong

        cuts, now = read_cuts(platform.lake, source), datetime.now(timezone.utc)
        wrong = list(what_is_wrong(platform.lake, cuts, declared.every, now))
        metadata = {"cdc/cuts": len(cuts)}
        if cuts:
            metadata["cdc/newest_seconds"] = round((now - cuts[0].made_at).total_seconds())
        more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        said = f"{quantity(len(cuts), 'cut')} kept, the newest is {cuts[0].cut}" if cuts else ""
        return check_result(key, not wrong, "; ".join(wrong[:_SHOWN]) + more if wrong else said, metadata)

    return check
