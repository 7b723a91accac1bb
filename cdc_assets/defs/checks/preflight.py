"""The preflight check of a connector: what must hold at the source is looked at again with every round of checks.

A slot that will be lost is a failure of tomorrow, so warnings are shown as such; the retained log is a figure over time.
"""

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.identity.look import note_server
from cdc_assets.preflight import Report, preflight
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import CapturedSource

NAME = "preflight"


def preflight_key(source: CapturedSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(NAME, "connector", source)


def build_preflight_check(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One check per source."""
    key = preflight_key(source)
    spec = dg.AssetCheckSpec(
        NAME, asset=key.asset_key, description="The source allows capture, and keeps the log for it.", blocking=True
    )

    @dg.multi_asset_check(name=names.op_name("preflight", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        report = preflight(platform, source)
        if any(f.check == "incarnation" and f.level != "fail" for f in report.findings):
            note_server(platform, source)
        return preflight_result(source, report)

    return check


def preflight_result(source: CapturedSource, report: Report) -> dg.AssetCheckResult:
    """Failures are errors, which stop what comes behind them in the same run; where there are only warnings, the check warns.

    A chain of declared columns needs nothing of its database itself: that nobody here can ask it warns.
    """
    bad = (*report.failures, *report.warnings)
    held = len(report.findings) - len(bad)
    wrong = "; ".join(f"{f.subject} {f.message}" + (f". Mend: {f.mend}" if f.mend else "") for f in bad[:5])
    text = wrong or f"{quantity(held, 'rule')} kept at {report.place}"
    rows = [dg.TableRecord({k: "" if v is None else str(v) for k, v in f.to_json().items()}) for f in bad]
    metadata = {
        "cdc/failures": len(report.failures),
        "cdc/warnings": len(report.warnings),
        **({"cdc/experimental": report.experimental} if report.experimental else {}),
        **{f"cdc/{name}": value for name, value in report.figures.items()},
        **({"cdc/findings": dg.MetadataValue.table(rows)} if rows else {}),
    }
    stopping = [f for f in report.failures if source.asked or f.check not in ("reachable", "refused")]
    severity = dg.AssetCheckSeverity.ERROR if stopping else dg.AssetCheckSeverity.WARN
    return check_result(preflight_key(source), not bad, text, metadata, severity=severity)
