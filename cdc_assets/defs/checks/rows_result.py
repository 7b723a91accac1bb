"""What the check `reconciled` says of one table, whichever way its rows were compared."""

from datetime import datetime, timezone

import dagster as dg

from cdc_assets.defs.checks import evidence
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.uncompared import standstill
from cdc_assets.reconcile.result import TableResult
from cdc_assets.reconcile.verdict import NOT_COMPARED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource


def rows_result(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, source: BaseSource, table: Table, result: TableResult
) -> dg.AssetCheckResult:
    """A table that could not be compared warns, and is red when that has lasted (`red_after`).

    It only warns where nobody has declared the rhythm and no comparison ever was: that is told, and nothing has become worse.
    """
    declared = source.reconciliation_of(table)
    severity = dg.AssetCheckSeverity.ERROR
    passed, told, metadata = evidence.of_reconciliation(result, values=declared.show == "values")
    if result.verdict == NOT_COMPARED:
        is_asked = source.asked is not None or source.reconciliation.every is not None
        now = datetime.now(timezone.utc)
        found = standstill(instance, key, now, declared.red_after, is_asked=is_asked)
        told, severity, metadata = found.sentence(result, now), found.severity(now), {**metadata, **found.metadata()}
    if declared.on_difference == "warn":
        severity = dg.AssetCheckSeverity.WARN
    return check_result(key, passed, told, metadata, severity=severity)
