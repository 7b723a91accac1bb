"""The check `events_flow` of a connector: it runs, and what changes at the source becomes events."""

from typing import Any, TypeGuard

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets import names
from cdc_assets.checks.evidence import of_error
from cdc_assets.checks.result import check_result
from cdc_assets.errors import CdcAssetsError
from cdc_assets.registry.models import BaseSource, Database, Source
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.flow import Flow, measure_flow

NAME = "events_flow"
BASELINE = "cdc/baseline"
_LOOK_BACK = 5


def has_flow_check(source: BaseSource) -> TypeGuard[Source]:
    """Whether the source counts what changes in its tables, as PostgreSQL does."""
    return isinstance(source, Source) and source.database.kind == "postgresql"


def flow_key(source: Source) -> dg.AssetCheckKey:
    """The check's key."""
    return dg.AssetCheckKey(dg.AssetKey(names.asset_key("connector", source)), NAME)


def build_flow_check(source: Source) -> dg.AssetChecksDefinition:
    """One check per source."""
    key = flow_key(source)

    @dg.asset_check(
        asset=key.asset_key,
        name=NAME,
        blocking=True,
        description="Every table that changes at the source (by the source's own counters) has events, and all are captured.",
    )
    def events_flow(context: dg.AssetCheckExecutionContext, platform: Platform) -> dg.AssetCheckResult:
        return check_result(key, *of_flow(_measured(context, platform, source)))

    return events_flow


def _measured(context: dg.AssetCheckExecutionContext, platform: Platform, source: Source) -> Flow | CdcAssetsError:
    from cdc_assets.resources.databases.postgresql_activity import PostgresActivity

    assert isinstance(source.database, Database), source.database.kind
    try:
        return measure_flow(
            source,
            database=PostgresActivity(source.database),
            core=platform.core_kafka(),
            config=platform.core_connect().config(names.connector_name(source)),
            previous=_baseline(context.instance, flow_key(source)),
        )
    except CdcAssetsError as error:
        return error


def _baseline(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Any:
    """Of the last check that passed: a silent table stays silent until an event of it comes."""
    passed = {AssetCheckExecutionRecordStatus.SUCCEEDED}
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOK_BACK, status=passed):
        if record.evaluation is not None and BASELINE in record.evaluation.metadata:
            return record.evaluation.metadata[BASELINE].value
    return None


def of_flow(found: Flow | CdcAssetsError) -> tuple[bool, str, dict[str, Any]]:
    """Passed or not, in words, and the figures."""
    if isinstance(found, CdcAssetsError):
        return of_error(found)
    metadata = {
        "cdc/changes_at_source": dg.MetadataValue.json(found.changes),
        "cdc/events_since": dg.MetadataValue.json(found.events),
        BASELINE: dg.MetadataValue.json(found.baseline),
    }
    if found.silent:
        return False, "; ".join(f"{table}: {why}" for table, why in sorted(found.silent.items())), metadata
    moved = sum(1 for changes in found.changes.values() if changes > 0)
    return True, f"{moved} of {len(found.changes)} table(s) changed at the source since the last check; none is silent", metadata
