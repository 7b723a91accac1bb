"""The check `events_flow` of a connector: it runs, and what changes at the source becomes events."""

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeGuard

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.defs.checks.evidence import Evidence, of_error
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.keys import key_of_check
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.errors import CdcAssetsError, DatabaseError, MissingSecretError
from cdc_assets.kinds import kind_of
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.flow import Flow, Witness, measure_flow
from cdc_assets.volumetry.unsent_changes import UnsentChanges, read_unsent_changes

NAME = "events_flow"
BASELINE = "cdc/baseline"
NONE_SILENT = "cdc/none_silent"
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
        description="Every table that changes at the source is captured and has events, and no change of rows is in the log "
        "without one. The source says itself what changes.",
    )
    def events_flow(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> dg.AssetCheckResult:
        previous = newest_baseline(context.instance, key)
        log = _read_log(platform, source, previous)
        found = _measurement(platform, source, previous)
        return check_result(key, *with_unsent(of_flow(found), source, log), severity=severity_of(source, found, log))

    return events_flow


@dataclass(frozen=True)
class LogReading:
    """What is known of changes that the log holds without an event, and why it could not be read, where it could not."""

    unsent: UnsentChanges = field(default_factory=UnsentChanges)
    error: CdcAssetsError | None = None


NOTHING_UNSENT = LogReading()


def severity_of(source: CapturedSource, found: Flow | CdcAssetsError, log: LogReading = NOTHING_UNSENT) -> dg.AssetCheckSeverity:
    """A chain of declared columns needs nothing of its database itself: that nobody here can ask it warns, as in `preflight`."""
    reason = found if isinstance(found, CdcAssetsError) else found.silent or log.error
    unasked = source.asked is None and isinstance(reason, _NOT_ANSWERED) and not log.unsent.messages(source)
    return dg.AssetCheckSeverity.WARN if unasked else dg.AssetCheckSeverity.ERROR


def _read_log(platform: Platform, source: CapturedSource, previous: Any) -> LogReading:
    """Before the marker is awaited, which does not come through where the connector has stopped at such a change."""
    try:
        kept = read_unsent_changes(source.name)
    except CdcAssetsError as error:
        return LogReading(error=error)
    try:
        return LogReading(_witness(source).unsent(source, platform.core_connect(source.cluster), previous))
    except CdcAssetsError as error:
        return LogReading(kept, error)


def _measurement(platform: Platform, source: CapturedSource, previous: Any) -> Flow | CdcAssetsError:
    try:
        return measure_flow(
            source,
            witness=_witness(source),
            core=platform.core_kafka(source.cluster),
            connect=platform.core_connect(source.cluster),
            previous=previous,
        )
    except CdcAssetsError as error:
        return error


def _witness(source: CapturedSource) -> Witness:
    part = kind_of(source).witness
    assert part is not None, source.kind_name
    witness: Witness = part.load()(source.database)
    return witness


def newest_baseline(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Any:
    """Of the last check that found no silent table: a silent table stays silent until an event of it comes.

    Red by a change without an event, a check has a baseline too: that change is remembered elsewhere.
    """
    found = []
    for status in (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED):
        passed = status == AssetCheckExecutionRecordStatus.SUCCEEDED
        for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOK_BACK, status={status}):
            metadata = record.evaluation.metadata if record.evaluation is not None else {}
            if BASELINE in metadata and (passed or NONE_SILENT in metadata):
                found.append((record.id, metadata[BASELINE].value))
                break
    return max(found, key=itemgetter(0))[1] if found else None


def of_flow(found: Flow | CdcAssetsError) -> Evidence:
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
    metadata[NONE_SILENT] = True
    moved = {name for name, changes in found.changes.items() if changes > 0} | {
        name for name, seen in found.events.items() if seen
    }
    told = f"{len(moved)} of {quantity(len(found.events), 'table')} changed at the source since the last check; none is silent"
    return True, told + (f"; {found.unread}" if found.unread else ""), metadata


def with_unsent(flow: Evidence, source: CapturedSource, log: LogReading) -> Evidence:
    """The same, failed where changes without an event are remembered, or where the log could not be read for them."""
    passed, told, metadata = flow
    messages = log.unsent.messages(source)
    texts = [f"{table}: {message}" for table, message in sorted(messages.items())]
    if log.error and passed:
        texts.append(f"the log could not be read for changes without an event: {log.error}")
    if messages:
        metadata = {**metadata, "cdc/unsent": dg.MetadataValue.json({name: log.unsent.tables[name].count for name in messages})}
    if log.unsent.unread:
        metadata = {**metadata, "cdc/unsent_not_read": log.unsent.unread}
        told = f"{told}; for changes without an event {log.unsent.unread}, the next check goes on there"
    return passed and not texts, "; ".join(texts if texts and passed else [*texts, told]), metadata
