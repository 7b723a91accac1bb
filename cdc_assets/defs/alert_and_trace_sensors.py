"""What the world outside is told of runs: alerts to the channels of CDC_ALERTS, and traces to an OpenTelemetry collector.

Each channel is told once what went red or green and which runs failed. A run that has ended is a span, and each of its steps a
span in it; runs that ended before the sensor began are not sent. What a channel or a collector does not take is sent again at
the next tick, under the same ids, and holds up no other.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg

from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.defs.check_results import runbook
from cdc_assets.defs.instance_runs import step_failures
from cdc_assets.deploy.alert_channels import VARIABLE, Channel, FailedRun, ToldChanges, as_told, changes, load_channels
from cdc_assets.deploy.otlp_traces import AttributeValue, Span, SpanEvent, send_spans, traces_endpoint
from cdc_assets.proof.chain_verdicts import CheckVerdict, check_verdicts
from cdc_assets.registry import settings
from cdc_assets.registry.errors import ServiceError
from spark.errors import quantity

_ALERT_TICK_SECONDS = 30
_COMMAND = re.compile(r"`(cdc [^`]+)`")


def build_alert_sensors() -> list[dg.SensorDefinition]:
    """One for all sources; none where no channels are named.

    Tells each channel of CDC_ALERTS what went red or green and which runs failed, once; it remembers by its cursor.
    """
    named = settings.lookup(VARIABLE)
    if not named:
        return []

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=_ALERT_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells what went red or green, and which runs failed (docs/how-to/alerts.md).",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        told_before = {name: as_told(entry) for name, entry in json.loads(context.cursor or "{}").items()}
        since = min((changes_told.runs_up_to for changes_told in told_before.values()), default=time.time())
        try:
            verdicts, runs = check_verdicts(DagsterAnswers()), runs_failed_since(context.instance, since)
        except ServiceError as error:
            if error.how != "silent":
                raise
            # As a stack starts, the daemon ticks before the webserver answers. The cursor stays, so nothing is lost.
            return dg.SensorResult(skip_reason=f"nothing told yet, told at a later tick: {error}", cursor=context.cursor)
        told_now, away = tell(load_channels(Path(named)), told_before, verdicts, runs, now=time.time())
        for reason in away:
            context.log.error("%s; told again at the next tick", reason)
        refusal = f"{quantity(len(away), 'channel')} did not take the message: {'; '.join(away)}" if away else None
        cursor = json.dumps({name: asdict(changes_told) for name, changes_told in told_now.items()})
        return dg.SensorResult(skip_reason=refusal or "told what was new", cursor=cursor)

    return [alerts]


def tell(
    channels: Sequence[Channel],
    known: Mapping[str, ToldChanges],
    verdicts: Sequence[CheckVerdict],
    runs: Sequence[FailedRun],
    *,
    now: float,
) -> tuple[dict[str, ToldChanges], list[str]]:
    """What each channel knows now, and why some do not. A new channel is told what is red, and of no run of before."""
    page = (settings.lookup("CDC_DAGSTER_URL") or "").rstrip("/")
    told_after, away = dict[str, ToldChanges](), list[str]()
    for channel in channels:
        before = known.get(channel.name, ToldChanges(runs_up_to=now))
        alerts, after = changes(verdicts, runs, before, mend=mend_command, page=page)
        told_after[channel.name] = after
        try:
            if alerts:
                channel.send(alerts)
        except ServiceError as error:
            away.append(str(error))
            told_after[channel.name] = before
    return told_after, away


def mend_command(verdict: CheckVerdict) -> str:
    """The first command of the check's section of docs/reference/checks.md, for its source and table; else where that page is."""
    remedy = runbook(verdict.name)
    text = getattr(remedy, "md_str", None) or str(remedy.value)
    mends = text.partition("**what mends it**")[2] or text
    command = _COMMAND.search(mends)
    if command is None:
        return "cdc status; docs/reference/checks.md"
    layer, source, last = verdict.asset
    words = {"SOURCE": source, "TABLE": last.removeprefix(f"{layer}_")}
    return re.sub(r"\b(SOURCE|TABLE)\b", lambda found: words[found[0]], command[1])


def runs_failed_since(instance: dg.DagsterInstance, since: float) -> list[FailedRun]:
    """Those that ended as failures at or behind a time (epoch seconds), oldest first."""
    run_filter = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.fromtimestamp(since, timezone.utc))
    failed_runs = []
    for record in instance.get_run_records(run_filter):
        if record.end_time is not None and record.end_time >= since:
            run = record.dagster_run
            failed_runs.append(FailedRun(run.run_id, run.job_name, record.end_time, _reason(instance, run.run_id)))
    return sorted(failed_runs, key=lambda run: run.at)


def _reason(instance: dg.DagsterInstance, run_id: str) -> str:
    """Of its first failed step: the error at the bottom, first line."""
    failures = step_failures(instance, run_id)
    return f"{failures[0][0]}: {failures[0][1]}".splitlines()[0] if failures else ""


_TRACE_TICK_SECONDS = 30
_AT_ONCE = 50
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def build_trace_sensors() -> list[dg.SensorDefinition]:
    """One for all sources; none where no collector is named.

    A run is a cycle: what a sensor asked for, through bronze, silver and their checks. Runs that ended before the sensor began
    are not sent. What a collector does not take is sent again at the next tick, under the same ids.
    """
    endpoint = traces_endpoint()
    if endpoint is None:
        return []

    @dg.sensor(
        name="traces",
        minimum_interval_seconds=_TRACE_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends a trace of each run to an OpenTelemetry collector (docs/how-to/traces.md).",
    )
    def traces(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        since, known_ids = json.loads(context.cursor) if context.cursor else (time.time(), [])
        records = find_ended_runs(context.instance, since, known_ids)
        cursor = _cursor(records, since, known_ids)
        try:
            if records:
                send_spans(endpoint, [span for record in records for span in spans_of(context.instance, record)])
        except ServiceError as error:
            context.log.error("%s; sent again at the next tick", error)
            return dg.SensorResult(skip_reason=str(error), cursor=json.dumps([since, known_ids]))
        return dg.SensorResult(skip_reason=f"sent {quantity(len(records), 'run')}", cursor=cursor)

    return [traces]


def find_ended_runs(instance: dg.DagsterInstance, since: float, known: list[str]) -> list[dg.RunRecord]:
    """Runs that ended at or behind a time (epoch seconds) and were not sent, oldest first; so many at once."""
    run_filter = dg.RunsFilter(statuses=_ENDED, updated_after=datetime.fromtimestamp(since, timezone.utc))
    ended = [run for run in instance.get_run_records(run_filter) if run.end_time is not None and run.end_time >= since]
    fresh = sorted((record for record in ended if record.dagster_run.run_id not in known), key=lambda each: each.end_time or 0.0)
    return fresh[:_AT_ONCE]


def _cursor(records: list[dg.RunRecord], since: float, known: list[str]) -> str:
    # Up to when runs were sent, and those of exactly that time.
    newest = max([since, *(record.end_time or 0.0 for record in records)])
    ids = [record.dagster_run.run_id for record in records if record.end_time == newest]
    return json.dumps([newest, [*known, *ids] if newest == since else ids])


def spans_of(instance: dg.DagsterInstance, record: dg.RunRecord) -> Iterator[Span]:
    """The run's span, then those of its steps."""
    run = record.dagster_run
    ended = record.end_time or 0.0
    began = record.start_time or record.create_timestamp.timestamp()
    failures = dict(step_failures(instance, run.run_id))
    is_good = run.status == dg.DagsterRunStatus.SUCCESS
    outcome = next(iter(failures.values()), run.status.value.lower())
    tags = {
        key: value for key, value in run.tags.items() if key in ("dagster/sensor_name", "dagster/schedule_name", "cdc/source")
    }
    about: dict[str, AttributeValue] = {
        "dagster.run_id": run.run_id,
        "dagster.job": run.job_name,
        "dagster.status": run.status.value,
        **tags,
    }
    failure = None if is_good else outcome
    yield Span(run.run_id, "run", "", f"run {run.job_name}", began, ended, about, failure=failure)
    for step in instance.get_run_step_stats(run.run_id):
        if step.start_time is None:
            continue
        events = [_event_of(event) for event in step.materialization_events if event.dagster_event is not None]
        end = step.end_time or ended
        why = failures.get(step.step_key)
        own: dict[str, AttributeValue] = {"dagster.step": step.step_key, "dagster.attempts": step.attempts or 1}
        yield Span(run.run_id, step.step_key, "run", step.step_key, step.start_time, end, own, events, why)


def _event_of(entry: dg.EventLogEntry) -> SpanEvent:
    made = entry.get_dagster_event().step_materialization_data.materialization
    values = {name: value.value for name, value in made.metadata.items()}
    plain = {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}
    return SpanEvent(f"materialized {made.asset_key.to_user_string()}", entry.timestamp, plain)
