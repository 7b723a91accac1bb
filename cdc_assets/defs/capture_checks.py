"""The checks of capture: preflight of a source, flow of a connector's events, Debezium's model of a table, loss in a mirror.

Preflight looks again at what must hold at the source; a slot that will be lost is a failure of tomorrow and a warning today.
Flow is red where a connector runs and changes do not become events. A table whose model is wrong is not folded. A mirror with a
loss is repaired where `topics: {on_gap: resnapshot}` says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeGuard

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.capture.incarnations.server_verdict import note_server
from cdc_assets.capture.mirror_losses import MirrorState, mirror_states, plan, repair
from cdc_assets.capture.preflight.inspection import Finding, Report, preflight
from cdc_assets.capture.preflight.table_models import CHECK, findings, reads_statements
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import key_of_check
from cdc_assets.defs.asset_steps import Checks, table_checks
from cdc_assets.defs.check_results import Evidence, check_result, of_error
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.proof.capture_flow import Flow, Witness, measure_flow
from cdc_assets.proof.kind_proof import proof_of
from cdc_assets.proof.unsent_changes import UnsentChanges, read_unsent_changes
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, MissingSecretError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

PREFLIGHT = "preflight"


def preflight_key(source: CapturedSource) -> dg.AssetCheckKey:
    """The key of the source's check."""
    return key_of_check(PREFLIGHT, "connector", source)


def build_preflight_check(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One check per source.

    A slot that will be lost is a failure of tomorrow, so warnings are shown as such; the retained log is a figure over time.
    """
    key = preflight_key(source)
    spec = dg.AssetCheckSpec(
        PREFLIGHT, asset=key.asset_key, description="The source allows capture, and keeps the log for it.", blocking=True
    )

    @dg.multi_asset_check(name=names.op_name("preflight", source), specs=[spec])
    def check(platform: PlatformResource) -> dg.AssetCheckResult:
        report = preflight(Chain(platform, source))
        if any(f.check == "incarnation" and f.level != "fail" for f in report.findings):
            note_server(Chain(platform, source))
        return preflight_result(source, report)

    return check


def preflight_result(source: CapturedSource, report: Report) -> dg.AssetCheckResult:
    """Failures are errors, which stop what comes behind them in the same run; where there are only warnings, the check warns.

    A chain of declared columns needs nothing of its database itself: that nobody here can ask it warns.
    """
    bad = (*report.failures, *report.warnings)
    rules_kept = len(report.findings) - len(bad)
    wrong = "; ".join(f"{f.subject} {f.message}" + (f". Mend: {f.mend}" if f.mend else "") for f in bad[:5])
    text = wrong or f"{quantity(rules_kept, 'rule')} kept at {report.place}"
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


FLOW = "events_flow"
BASELINE = "cdc/baseline"
NONE_SILENT = "cdc/none_silent"
_LOOK_BACK = 5
_NOT_ANSWERED = (DatabaseError, MissingSecretError)


def has_flow_check(source: BaseSource) -> TypeGuard[CapturedSource]:
    """Whether the source can be asked what has changed: PostgreSQL by its counters, MariaDB and MySQL by their binlog."""
    return proof_of(source).witness is not None


def flow_key(source: CapturedSource) -> dg.AssetCheckKey:
    """The check's key, on the asset of the source's connector."""
    return key_of_check(FLOW, "connector", source)


def build_flow_check(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One check per source."""
    key = flow_key(source)

    @dg.asset_check(
        asset=key.asset_key,
        name=FLOW,
        blocking=True,
        description="Every table that changes at the source is captured and has events, and no change of rows is in the log "
        "without one. The source says itself what changes.",
    )
    def events_flow(context: dg.AssetCheckExecutionContext, platform: PlatformResource) -> dg.AssetCheckResult:
        previous = newest_baseline(context.instance, key)
        log = _read_log(Chain(platform, source), previous)
        flow = _measurement(Chain(platform, source), previous)
        return check_result(key, *with_unsent(of_flow(flow), source, log), severity=severity_of(source, flow, log))

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


def _read_log(chain: Chain[CapturedSource], previous: Any) -> LogReading:
    """Before the marker is awaited, which does not come through where the connector has stopped at such a change."""
    try:
        kept = read_unsent_changes(chain.source.name)
    except CdcAssetsError as error:
        return LogReading(error=error)
    try:
        return LogReading(
            _witness(chain.source).unsent(chain.source, chain.platform.core_connect(chain.source.cluster), previous)
        )
    except CdcAssetsError as error:
        return LogReading(kept, error)


def _measurement(chain: Chain[CapturedSource], previous: Any) -> Flow | CdcAssetsError:
    try:
        return measure_flow(
            chain.source,
            witness=_witness(chain.source),
            core=chain.platform.core_kafka(chain.source.cluster),
            connect=chain.platform.core_connect(chain.source.cluster),
            previous=previous,
        )
    except CdcAssetsError as error:
        return error


def _witness(source: CapturedSource) -> Witness:
    witness = proof_of(source).witness
    assert witness is not None, source.kind_name
    return witness(source.database)


def newest_baseline(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> Any:
    """Of the last check that found no silent table: a silent table stays silent until an event of it comes.

    Red by a change without an event, a check has a baseline too: that change is remembered elsewhere.
    """
    baselines = []
    for status in (AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED):
        passed = status == AssetCheckExecutionRecordStatus.SUCCEEDED
        for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOK_BACK, status={status}):
            metadata = record.evaluation.metadata if record.evaluation is not None else {}
            if BASELINE in metadata and (passed or NONE_SILENT in metadata):
                baselines.append((record.id, metadata[BASELINE].value))
                break
    return max(baselines, key=itemgetter(0))[1] if baselines else None


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
    summary = f"{len(moved)} of {quantity(len(found.events), 'table')} changed at the source since the last check; none is silent"
    return True, summary + (f"; {found.unread}" if found.unread else ""), metadata


def with_unsent(flow: Evidence, source: CapturedSource, log: LogReading) -> Evidence:
    """The same, failed where changes without an event are remembered, or where the log could not be read for them."""
    passed, sentence, metadata = flow
    messages = log.unsent.messages(source)
    texts = [f"{table}: {message}" for table, message in sorted(messages.items())]
    if log.error and passed:
        texts.append(f"the log could not be read for changes without an event: {log.error}")
    if messages:
        metadata = {**metadata, "cdc/unsent": dg.MetadataValue.json({name: log.unsent.tables[name].count for name in messages})}
    if log.unsent.unread:
        metadata = {**metadata, "cdc/unsent_not_read": log.unsent.unread}
        sentence = f"{sentence}; for changes without an event {log.unsent.unread}, the next check goes on there"
    return passed and not texts, "; ".join(texts if texts and passed else [*texts, sentence]), metadata


def has_models(source: BaseSource) -> TypeGuard[CapturedSource]:
    """Whether its connector reads DDL by its text: MariaDB's and MySQL's."""
    return reads_statements(source) is not None


def model_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(CHECK, "silver", source, table)


def build_model_checks(source: CapturedSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source.

    Debezium reads a table's rows by the columns that the server has. The check is red as long as it does not; silver folds
    nothing of the table then (cdc_assets.chain.silver_fold). It warns where that cannot be told yet.
    """
    checks = {model_key(source, table): table for table in source.tables}

    @table_checks("table_model", source, checks, "Debezium reads the table's rows by the columns that the server has.")
    def table_model(_: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        yield from model_results(source, wanted, findings(Chain(platform, source), [table.id for table in wanted.values()]))

    return table_model


def model_results(source: CapturedSource, wanted: Checks, found: Iterator[Finding]) -> Iterator[dg.AssetCheckResult]:
    """A finding about the server is one of each table; a table that nothing is known of yet passes with these words."""
    by_subject = {finding.subject: finding for finding in found}
    for key, table in wanted.items():
        finding = by_subject.get(str(table.id)) or by_subject.get("server")
        if finding is None:
            yield check_result(key, True, f"source {source.name} has no schema history yet, or no such table", {})
            continue
        mend = f". Mend: {finding.mend}" if finding.mend else ""
        severity = dg.AssetCheckSeverity.WARN if finding.level == "warn" else dg.AssetCheckSeverity.ERROR
        yield check_result(key, finding.level == "ok", finding.message + mend, {}, severity=severity)


MIRROR = "nothing_lost"


def mirror_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(MIRROR, "mirror", source, table)


def build_mirror_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source.

    The mirror check: nothing that the core cluster held was lost on its way into the lake's, and nothing is about to be.
    """
    checks = {mirror_key(source, table): table for table in source.tables}
    description = "No record, and no whole topic, was removed before MirrorMaker had copied it."

    @table_checks("mirrors", source, checks, description)
    def mirrors(context: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        states = {state.table: state for state in mirror_states(Chain(platform, source))}
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
