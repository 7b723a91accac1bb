"""The check `events_flow` of a connector: it runs, and what changes at the source becomes events."""

from typing import Any, TypeGuard

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.defs.checks.evidence import of_error
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.errors import CdcAssetsError, DatabaseError, MissingSecretError
from cdc_assets.kinds import kind_of
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.flow import Flow, Witness, measure_flow

NAME = "events_flow"
BASELINE = "cdc/baseline"
_LOOK_BACK = 5
_NOT_ANSWERED = (DatabaseError, MissingSecretError)


def has_flow_check(source: BaseSource) -> TypeGuard[CapturedSource]:
    """Whether the source can be asked what has changed: PostgreSQL by its counters, MariaDB and MySQL by their binlog."""
    return kind_of(source).witness is not None


def flow_key(source: CapturedSource) -> dg.AssetCheckKey:
    """The check's key, on the asset of the source's connector."""
    return key_of_check(NAME, "connector", source)


def build_flow_check(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One check per source."""
    key = flow_key(source)

    @dg.asset_check(
        asset=key.asset_key,
        name=NAME,
        blocking=True,
        description="Every table that changes at the source is captured and has events. The source says itself what changes.",
    )
    def events_flow(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> dg.AssetCheckResult:
        found = _measurement(context, platform, source)
        return check_result(key, *of_flow(found), severity=severity_of(source, found))

    return events_flow


def severity_of(source: CapturedSource, found: Flow | CdcAssetsError) -> dg.AssetCheckSeverity:
    """A chain of declared columns needs nothing of its database itself: that nobody here can ask it warns, as in `preflight`."""
    unasked = source.asked is None and isinstance(found, _NOT_ANSWERED)
    return dg.AssetCheckSeverity.WARN if unasked else dg.AssetCheckSeverity.ERROR


def _measurement(context: dg.AssetCheckExecutionContext, platform: Platform, source: CapturedSource) -> Flow | CdcAssetsError:
    try:
        return measure_flow(
            source,
            witness=_witness(source),
            core=platform.core_kafka(source.cluster),
            connect=platform.core_connect(source.cluster),
            previous=_baseline(context.instance, flow_key(source)),
        )
    except CdcAssetsError as error:
        return error


def _witness(source: CapturedSource) -> Witness:
    part = kind_of(source).witness
    assert part is not None, source.kind_name
    witness: Witness = part.load()(source.database)
    return witness


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
    metadata: dict[str, Any] = {
        "cdc/changes_at_source": dg.MetadataValue.json(found.changes),
        "cdc/events_since": dg.MetadataValue.json(found.events),
        BASELINE: dg.MetadataValue.json(found.baseline),
    }
    if found.unread:
        metadata["cdc/not_read"] = found.unread
    if found.silent:
        return False, "; ".join(f"{table}: {why}" for table, why in sorted(found.silent.items())), metadata
    moved = {name for name, changes in found.changes.items() if changes > 0} | {
        name for name, seen in found.events.items() if seen
    }
    told = f"{len(moved)} of {quantity(len(found.events), 'table')} changed at the source since the last check; none is silent"
    return True, told + (f"; {found.unread}" if found.unread else ""), metadata
