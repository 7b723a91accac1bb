"""The assets before the lake, connector, topics and mirrors, each as declared, or it fails; and the checks of capture.

Of a source that git deploys they are looked at only: what is absent or does not run fails, what differs is told. A mirror's
asset waits until a marker in the source's log, and so everything committed before it, has come through Debezium and MirrorMaker
2. So a run of the whole chain ends complete without sensor or daemon. Where no place of the log can be named, the topics'
content is waited for, and the run's log says so. A topic that does not come fails its table, and the others go on.

Preflight looks again at what must hold at the source; a slot that will be lost is a failure of tomorrow and a warning today.
Flow is red where a connector runs and changes do not become events. A table whose model is wrong is not folded. A mirror with a
loss is repaired where `topics: {on_gap: resnapshot}` says so.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.capture.connectors.apply_connector import bring_connector, make_topic
from cdc_assets.capture.connectors.apply_source import ensure_signal_table, judge_source, mend_partitions
from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT
from cdc_assets.capture.connectors.debezium_settings import retention_ms, retention_of
from cdc_assets.capture.connectors.declared_connectors import not_listed
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.incarnations.server_verdict import note_server
from cdc_assets.capture.log_position import CaughtUpTimeoutError, mirror_offsets
from cdc_assets.capture.mirror_losses import MirrorState, mirror_states, plan, repair
from cdc_assets.capture.named_log_position import carry_or_tell
from cdc_assets.capture.preflight.inspection import Finding, Report, preflight
from cdc_assets.capture.preflight.table_models import findings
from cdc_assets.chain.new_epoch import apply_on_gap
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import each_table
from cdc_assets.defs.asset_specs import LOG_VERSION, connector_spec
from cdc_assets.defs.asset_steps import CheckRun, TableMetadata, check_step, table_step
from cdc_assets.defs.check_results import (
    Evidence,
    check_result,
    metadata_of_applied,
    metadata_of_difference,
    metadata_of_status,
    of_error,
)
from cdc_assets.defs.check_specs import EVENTS_FLOW, NOTHING_LOST, PREFLIGHT, TABLE_MODEL
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.proof.capture_flow import Flow, Witness, measure_flow
from cdc_assets.proof.kind_proof import proof_of
from cdc_assets.proof.unsent_changes import UnsentChanges, read_unsent_changes
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, MissingSecretError, RefusalError, ServiceError
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


def build_connector_asset(source: CapturedSource) -> dg.AssetsDefinition:
    """One asset per source: declared config in, a connector with every task running out; nothing else is touched."""

    @dg.multi_asset(specs=[connector_spec(source)], name=names.op_name("connector", source), can_subset=False)
    def connector(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        connect = platform.core_connect(source.cluster)
        epochs = apply_on_gap(Chain(platform, source), context.log.warning)
        judged = judge_source(Chain(platform, source), server_is_known=not epochs)
        for message in judged.messages:
            context.log.error("%s", message)
        capture = next(one for one in judged.connectors if one.role == "capture")
        lines = difference_of(connect, source, capture.config).lines()
        for line in lines:
            context.log.info("%s", line)
        if unsignalled := ensure_signal_table(source):
            context.log.warning("%s", unsignalled)
        late = not_listed(capture.source, connect.config(capture.name))
        parted = mend_partitions(capture.source)
        applied = bring_connector(connect, source, capture.config)
        context.log.info("%s: %s", applied.name, applied.summary)
        if applied.changed_keys and not applied.written:
            context.log.warning("%s is managed_by: gitops and not written from here: %s", applied.name, COMMIT)
        if parted:
            context.log.warning("%s", parted)
        if late and applied.written:
            # A running connector takes no snapshot of what is added to its list.
            only_changes = "only changes of %s come from now on; for the rows too: cdc onboard %s %s"
            context.log.warning(only_changes, late, source.name, late)
        result = metadata_of_applied(source, applied) | metadata_of_difference(lines)
        result |= metadata_of_status(connect.url, applied.status)
        result |= {
            **names.capture_names(source),
            "cdc/tables": len(capture.source.tables),
            "cdc/tables_to_onboard": late or "none",
            **({"cdc/tables_refused": "\n".join(judged.messages)} if judged.messages else {}),
            "cdc/database": platform.database(source.asked).place if source.asked else source.database.kind,
            **({"cdc/epochs_opened": dg.MetadataValue.json(epochs)} if epochs else {}),
        }
        return dg.MaterializeResult(metadata=result, data_version=dg.DataVersion(LOG_VERSION))

    return connector


_DECLARED_TOPIC_SECONDS = 30.0


def build_topic_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source.

    The topic assets: each table's topic exists as declared, and is seen: identity, offsets, retention.
    """

    @table_step("topic", source)
    def topic(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        cluster = platform.core_kafka(source.cluster) if names.is_mirrored(source) else platform.lake_kafka()

        def ensure(table: Table) -> tuple[TopicState, str]:
            if own := source.captured:  # a topic of others is theirs to make and to keep
                if source.managed_by == "gitops":
                    return _topic_of_git(cluster, own, table)
                return make_topic(cluster, own, table, deadline=_DECLARED_TOPIC_SECONDS), ""
            return cluster.await_state(names.topic(source, table), deadline=_DECLARED_TOPIC_SECONDS), ""

        for table, (state, differs) in each_table("topic", tables, ensure):
            if differs:
                context.log.warning("topic %s: %s; managed_by: gitops, nothing was written; %s", state.name, differs, COMMIT)
            yield table, {**topic_metadata(state), **_retention(source, table), **({"cdc/differs": differs} if differs else {})}

    return topic


def _topic_of_git(cluster: KafkaCluster, source: CapturedSource, table: Table) -> tuple[TopicState, str]:
    """The topic, and what of it is not as declared.

    Raises:
        ServiceError: it is not there; whoever made it from here would take it from the operator.
    """
    name = names.topic(source, table)
    state = cluster.states([name]).get(name)
    if state is None:
        raise ServiceError(
            f"topic {name} is not at {cluster.bootstrap}, and is managed_by: gitops, nothing was written; {COMMIT}"
        )
    config, declared = (
        cluster.topic_config(name),
        {"cleanup.policy": "delete", "retention.ms": retention_ms(source, table)},
    )
    differences = [f"{key} is {config[key]}, declared is {value}" for key, value in declared.items() if config[key] != value]
    if len(state.ranges) != source.topics.partitions:
        differences.append(f"it has {quantity(len(state.ranges), 'partition')}, declared is {source.topics.partitions}")
    return state, "; ".join(differences)


def _retention(source: BaseSource, table: Table) -> dict[str, str]:
    return {"cdc/retention": format_duration(retention_of(source, table))} if source.captured else {}


def topic_metadata(state: TopicState) -> dict[str, Any]:
    """Identity and offsets of a topic. Offsets only: the number of records is for the volumetry checks to count."""
    return {
        "cdc/topic_id": state.topic_id,
        "cdc/partitions": len(state.ranges),
        "cdc/peek": f"cdc peek {state.name}",
        "cdc/offsets": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(state.ranges.items())}),
    }


_TOPIC_DEADLINE_SECONDS = 120.0
# An initial snapshot of large tables goes through here as well.
_CARRY_DEADLINE_SECONDS = 3600.0
_UNKNOWN = "not known: only what its topics held was waited for"


def build_mirror_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source: they share one MirrorSourceConnector.

    The mirror assets: MirrorMaker 2 runs as declared, and what the source had committed is in the lake's cluster.
    """

    @table_step("mirror", source)
    def mirror(context: dg.AssetExecutionContext, platform: Platform, tables: list[Table]) -> TableMetadata:
        lake, connect = platform.lake_kafka(), platform.lake_connect()
        standing = _absent(Chain(platform, source), tables)
        judge_source(Chain(platform, source))
        applied = bring_connector(connect, source, mirror_config(source))
        context.log.info("%s: %s (managed_by: %s)", applied.name, applied.summary, source.managed_by)

        def appear(table: Table) -> TopicState:
            return lake.await_state(names.lake_topic(source, table), deadline=_TOPIC_DEADLINE_SECONDS)

        started = time.monotonic()
        try:
            reached = carry_or_tell(Chain(platform, source), deadline=_CARRY_DEADLINE_SECONDS, say=context.log.warning)
        except CaughtUpTimeoutError as error:
            if error.reached is None:
                raise
            reached = error.reached
            standing |= {names.table_name(t): str(error) for t in tables if names.topic(source, t) in error.topics}
        come, seconds = [table for table in tables if names.table_name(table) not in standing], time.monotonic() - started
        at = mirror_offsets(connect, applied.name)
        shared = {
            "cdc/connector": applied.name,
            **metadata_of_applied(source, applied),
            "cdc/source_lsn_reached": reached.lsn or _UNKNOWN,
            "cdc/seconds": round(seconds, 3),
            **metadata_of_status(connect.url, applied.status),
        }
        for table, state in each_table("mirror", come, appear, failures=standing):
            origin = names.topic(source, table)
            copied = {str(p): offset for (topic, p), offset in sorted(at.items()) if topic == origin}
            own = {"cdc/peek": f"cdc peek {state.name} --cluster {names.LAKE}"}
            yield table, topic_metadata(state) | own | shared | {"cdc/copied_up_to_core_offset": dg.MetadataValue.json(copied)}

    return mirror


def _absent(chain: Chain[BaseSource], tables: Sequence[Table]) -> dict[str, str]:
    """By table why its topic cannot come. MirrorMaker has no task until it finds one, and would be waited for in vain.

    Raises:
        RefusalError: no topic is there.
    """
    core, by_topic = (
        chain.platform.core_kafka(chain.source.cluster),
        {names.topic(chain.source, table): table for table in tables},
    )
    there = core.states(list(by_topic))
    absent = {
        names.table_name(table): f"topic {topic} is not on the core cluster at {core.bootstrap}: "
        f"materialize {'/'.join(names.asset_key('topic', chain.source, table))} first"
        for topic, table in sorted(by_topic.items())
        if topic not in there
    }
    if absent and not there:
        raise RefusalError("; ".join(absent.values()))
    return absent


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
    # As `cdc repair mirror` does it; what was found is told, also where all is well again.
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
