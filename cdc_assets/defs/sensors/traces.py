"""Sends each run that has ended to an OpenTelemetry collector, once: a span for the run, one for each step within it.

A run is a cycle: what a sensor asked for, through bronze, silver and their checks. Runs that ended before the sensor began are
not sent. What a collector does not take is sent again at the next tick, under the same ids.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import dagster as dg

from cdc_assets.defs.step_failures import step_failures
from cdc_assets.errors import TracesError
from cdc_assets.quantity import quantity
from cdc_assets.traces.otlp import Span, SpanEvent, Value, send_spans, traces_endpoint

_TICK_SECONDS = 30
_AT_ONCE = 50
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def build_trace_sensors() -> list[dg.SensorDefinition]:
    """One for all sources; none where no collector is named."""
    endpoint = traces_endpoint()
    if endpoint is None:
        return []

    @dg.sensor(
        name="traces",
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends a trace of each run to an OpenTelemetry collector (docs/how-to/traces.md).",
    )
    def traces(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        since, known = json.loads(context.cursor) if context.cursor else (time.time(), [])
        records = find_ended_runs(context.instance, since, known)
        cursor = _cursor(records, since, known)
        try:
            if records:
                send_spans(endpoint, [span for record in records for span in spans_of(context.instance, record)])
        except TracesError as error:
            context.log.error("%s; sent again at the next tick", error)
            return dg.SensorResult(skip_reason=str(error), cursor=json.dumps([since, known]))
        return dg.SensorResult(skip_reason=f"sent {quantity(len(records), 'run')}", cursor=cursor)

    return [traces]


def find_ended_runs(instance: dg.DagsterInstance, since: float, known: list[str]) -> list[dg.RunRecord]:
    """Runs that ended at or behind a time (epoch seconds) and were not sent, oldest first; so many at once."""
    asked = dg.RunsFilter(statuses=_ENDED, updated_after=datetime.fromtimestamp(since, timezone.utc))
    found = [each for each in instance.get_run_records(asked) if each.end_time is not None and each.end_time >= since]
    fresh = sorted((each for each in found if each.dagster_run.run_id not in known), key=lambda each: each.end_time or 0.0)
    return fresh[:_AT_ONCE]


def _cursor(records: list[dg.RunRecord], since: float, known: list[str]) -> str:
    """Up to when runs were sent, and those of exactly that time."""
    newest = max([since, *(each.end_time or 0.0 for each in records)])
    ids = [each.dagster_run.run_id for each in records if each.end_time == newest]
    return json.dumps([newest, [*known, *ids] if newest == since else ids])


def spans_of(instance: dg.DagsterInstance, record: dg.RunRecord) -> Iterator[Span]:
    """The run's span, then those of its steps."""
    run = record.dagster_run
    ended = record.end_time or 0.0
    began = record.start_time or record.create_timestamp.timestamp()
    failures = dict(step_failures(instance, run.run_id))
    is_good = run.status == dg.DagsterRunStatus.SUCCESS
    told = next(iter(failures.values()), run.status.value.lower())
    tags = {
        key: value for key, value in run.tags.items() if key in ("dagster/sensor_name", "dagster/schedule_name", "cdc/source")
    }
    about: dict[str, Value] = {
        "dagster.run_id": run.run_id,
        "dagster.job": run.job_name,
        "dagster.status": run.status.value,
        **tags,
    }
    failure = None if is_good else told
    yield Span(run.run_id, "run", "", f"run {run.job_name}", began, ended, about, failure=failure)
    for step in instance.get_run_step_stats(run.run_id):
        if step.start_time is None:
            continue
        events = [_event_of(each) for each in step.materialization_events if each.dagster_event is not None]
        end = step.end_time or ended
        why = failures.get(step.step_key)
        own: dict[str, Value] = {"dagster.step": step.step_key, "dagster.attempts": step.attempts or 1}
        yield Span(run.run_id, step.step_key, "run", step.step_key, step.start_time, end, own, events, why)


def _event_of(entry: dg.EventLogEntry) -> SpanEvent:
    """A materialization, with its figures and texts."""
    made = entry.get_dagster_event().step_materialization_data.materialization
    values = {name: each.value for name, each in made.metadata.items()}
    plain = {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}
    return SpanEvent(f"materialized {made.asset_key.to_user_string()}", entry.timestamp, plain)
