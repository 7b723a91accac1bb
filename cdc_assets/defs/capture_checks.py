"""The checks of capture: preflight of a source, flow of a connector's events, Debezium's model of a table, loss in a mirror.

Preflight looks again at what must hold at the source; a slot that will be lost is a failure of tomorrow and a warning today.
Flow is red where a connector runs and changes do not become events. A table whose model is wrong is not folded. A mirror with a
loss is repaired where `topics: {on_gap: resnapshot}` says so.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.capture.incarnations.server_verdict import note_server
from cdc_assets.capture.mirror_losses import MirrorState, mirror_states, plan, repair
from cdc_assets.capture.preflight.inspection import Finding, Report, preflight
from cdc_assets.capture.preflight.table_models import findings
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_steps import CheckRun, check_step
from cdc_assets.defs.check_results import Evidence, check_result, of_error
from cdc_assets.defs.check_specs import EVENTS_FLOW, NOTHING_LOST, PREFLIGHT, TABLE_MODEL
from cdc_assets.proof.capture_flow import Flow, Witness, measure_flow
from cdc_assets.proof.unsent_changes import UnsentChanges, read_unsent_changes
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, MissingSecretError
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


@check_step("preflight", PREFLIGHT)
def preflight_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """Preflight again: a slot that will be lost is a failure of tomorrow, so it warns. The retained log is a figure over time."""
    report = preflight(run.captured)
    if any(finding.check == "incarnation" and finding.level != "fail" for finding in report.findings):
        note_server(run.captured)
    yield preflight_result(run.captured.source, report)


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
    return check_result(PREFLIGHT.key(source), not bad, text, metadata, severity=severity)


BASELINE = "cdc/baseline"
NONE_SILENT = "cdc/none_silent"
_LOOK_BACK = 5
_NOT_ANSWERED = (DatabaseError, MissingSecretError)


@check_step("events_flow", EVENTS_FLOW)
def flow_check(run: CheckRun[None]) -> Iterator[dg.AssetCheckResult]:
    """Whether changes become events: of every table since the last check, and of the log where it has some without an event."""
    chain, key = run.captured, EVENTS_FLOW.key(run.chain.source)
    previous = newest_baseline(run.context.instance, key)
    # Before the marker is awaited, which does not come through where the connector has stopped at such a change.
    log = _read_log(chain, previous)
    flow = _measurement(chain, previous)
    yield check_result(key, *with_unsent(of_flow(flow), chain.source, log), severity=severity_of(chain.source, flow, log))


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
    witness_of_kind = kind_of(source).witness
    assert witness_of_kind is not None, source.kind_name
    witness: Witness = witness_of_kind.load()(source.database)
    return witness


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


@check_step("table_model", TABLE_MODEL)
def model_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Debezium reads a table's rows by the columns that the server has. The check is red as long as it does not; silver folds
    nothing of the table then (cdc_assets.chain.silver_fold). It warns where that cannot be told yet.
    """
    tables = [table.id for table in run.selected.values()]
    yield from model_results(run.captured.source, run.selected, findings(run.captured, tables))


def model_results(
    source: CapturedSource, checks: Mapping[dg.AssetCheckKey, Table], rules: Iterator[Finding]
) -> Iterator[dg.AssetCheckResult]:
    """A finding about the server is one of each table; a table that nothing is known of yet passes with these words."""
    by_subject = {finding.subject: finding for finding in rules}
    for key, table in checks.items():
        finding = by_subject.get(str(table.id)) or by_subject.get("server")
        if finding is None:
            yield check_result(key, True, f"source {source.name} has no schema history yet, or no such table", {})
            continue
        mend = f". Mend: {finding.mend}" if finding.mend else ""
        severity = dg.AssetCheckSeverity.WARN if finding.level == "warn" else dg.AssetCheckSeverity.ERROR
        yield check_result(key, finding.level == "ok", finding.message + mend, {}, severity=severity)


@check_step("mirrors", NOTHING_LOST)
def mirror_check(run: CheckRun[Table]) -> Iterator[dg.AssetCheckResult]:
    """Nothing that the core cluster held was lost on its way into the lake's, and nothing is about to be."""
    platform, source = run.chain.platform, run.chain.source
    states = {state.table: state for state in mirror_states(run.chain)}
    for key, table in run.selected.items():
        state = states[names.table_name(table)]
        if state.repair and source.topics.on_gap == "resnapshot":
            yield _repair(key, platform, source, state, run.context.log.info)
        else:
            yield _result(key, state)


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
