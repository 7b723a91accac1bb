"""The sensors that start again what has ended: connectors that failed, and the long run of a continuous source.

A connector is restarted with growing pauses. What is remembered lies in the sensor's cursor. When it gives up, the connector's
check turns red with the reason; the next rounds of checks find the connector as it is, until it runs: `cdc restart` or a new
config. A long run is started, started again when it ended, and replaced for newer definitions: its sensor off pauses the source,
on resumes it.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial

import dagster as dg

from cdc_assets.capture.connectors.connector_inventory import connector_owners
from cdc_assets.capture.connectors.connector_restart import MAX_RESTARTS, RestartState, decide, restart_connector
from cdc_assets.capture.incarnations.server_verdict import refuse_other
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_results import check_result, evaluation_of
from cdc_assets.defs.check_specs import CONNECTOR_RUNNING
from cdc_assets.defs.continuous_run import ENDS_TAG, SignOfLife, job_name, keeper_name
from cdc_assets.defs.instance_runs import UNDER_WAY
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, MissingAddressError, ServiceError
from cdc_assets.registry.names import DIGEST_TAG
from cdc_assets.registry.source_declaration import BaseSource, digest
from spark.errors import quantity

_CONNECTOR_TICK_SECONDS = 30
# Dagster ends a tick after 60 s, and forgets its cursor then, with what was restarted and when.
_ANSWER_SECONDS = 5.0


def build_restart_sensor(source: BaseSource) -> dg.SensorDefinition:
    """One per source: all of its connectors."""

    @dg.sensor(
        name=f"restarts_{source.name}",
        minimum_interval_seconds=_CONNECTOR_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Restarts failed connectors after n² + n minutes, {MAX_RESTARTS} times.",
    )
    def restarts(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
        return evaluate(source, platform, context.cursor, now=time.time(), say=context.log.warning)

    return restarts


def evaluate(source: BaseSource, platform: Platform, cursor: str | None, *, now: float, say: object = None) -> dg.SensorResult:
    """One tick. Nothing is requested: a restart needs no run. A cluster that does not answer is asked once."""
    states = {name: RestartState(**state) for name, state in json.loads(cursor or "{}").items()}
    lines: list[str] = []
    alerts: list[dg.AssetCheckEvaluation] = []
    away: set[str] = set()
    for name in connector_owners([source]):
        captures = source.captured is not None and name == names.connector_name(source.captured)
        cluster, began = source.cluster if captures else names.LAKE, time.monotonic()
        if cluster in away:
            continue
        try:
            connect = platform.connect(cluster).within(_ANSWER_SECONDS)
            guard = partial(refuse_other, Chain(platform, source)) if captures else None
            states[name], line, alert = _one(connect, name, states.get(name, RestartState()), now, guard)
        except CdcAssetsError as error:
            if isinstance(error, ServiceError) and time.monotonic() - began >= _ANSWER_SECONDS:
                away.add(cluster)
            away |= {cluster} if isinstance(error, MissingAddressError) else set()
            lines.append(str(error))
            continue
        lines += [line] if line else []
        # A source of topics has no connector asset; `nothing_lost` of its mirrors says it.
        if alert and source.captured:
            key = CONNECTOR_RUNNING.key(source)
            metadata = {"cdc/connector": name, "cdc/restarts": states[name].restarts}
            alerts.append(evaluation_of(check_result(key, False, line, metadata)))
    for line in lines:
        if callable(say):
            say(line)
    kept = {name: state.to_json() for name, state in states.items() if state != RestartState()}
    return dg.SensorResult(
        cursor=json.dumps(kept), asset_events=alerts, skip_reason=dg.SkipReason("; ".join(lines) or "every task runs")
    )


def _one(
    connect: ConnectClient, name: str, state: RestartState, now: float, guard: Callable[[], None] | None
) -> tuple[RestartState, str, bool]:
    status = connect.status(name)
    if status is None:
        return state, "", False
    action, after = decide(state, failed=status.failed, running=status.running, now=now)
    reason = "; ".join(status.trace) or status.state
    if action == "restart":
        if guard is not None:
            guard()  # its offset may be of a server that was restored since
        restart_connector(connect, name)
        return after, f"{name} has failed, restarted ({after.restarts} of {MAX_RESTARTS}): {reason}", False
    if action == "wait":
        return after, f"{name} has failed, next restart in {(state.due - now) / 60:.0f} min: {reason}", False
    if action in ("give up", "given up"):
        after_all = quantity(state.restarts, "restart")
        line = f"{name} has failed again after {after_all}, given up: {reason}. Mend it, then: cdc restart {name}"
        return after, line, action == "give up"
    return after, f"{name} runs again" if action == "recovered" else "", False


CONTINUOUS_TAG = "cdc/continuous"
"""The source, on its long run. Not names.SOURCE_TAG, by which short runs are counted."""
_RUN_TICK_SECONDS = 5
_SILENT_SECONDS = 180.0
"""A run leaves a sign of life every five seconds: so long without one, and its process is gone."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 300.0
_RUNS_LOOKED_AT = 8


def build_keeper(source: BaseSource, job: dg.JobDefinition) -> dg.SensorDefinition:
    """The sensor of the source's continuous job."""
    loaded = digest(source)

    @dg.sensor(
        name=keeper_name(source),
        job_name=job.name,
        minimum_interval_seconds=_RUN_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        tags={CONTINUOUS_TAG: source.name, DIGEST_TAG: loaded},
        description="Keeps the run of continuous mode alive. Off: the source is paused.",
    )
    def keeper(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        why = why_not_now(context.instance, source, loaded, now=time.time())
        if why:
            return dg.SkipReason(why)
        return dg.RunRequest(tags={CONTINUOUS_TAG: source.name, DIGEST_TAG: loaded})

    return keeper


def why_not_now(instance: dg.DagsterInstance, source: BaseSource, loaded: str, *, now: float) -> str:
    """Why no run is to be started; empty: one is. A run of older definitions is asked to end, one that is gone is ended."""
    filters = dg.RunsFilter(job_name=job_name(source), statuses=UNDER_WAY)
    records = instance.get_run_records(filters=filters, limit=_RUNS_LOOKED_AT)
    life = SignOfLife.read(instance, source)
    alive = []
    for record in records:
        run = record.dagster_run
        if _is_gone(record, life, now=now):
            instance.report_run_failed(run, f"no sign of life for {_SILENT_SECONDS:.0f} s: its process is gone")
            continue
        alive.append(run)
        if run.tags.get(DIGEST_TAG) != loaded and ENDS_TAG not in run.tags:
            instance.add_run_tags(run.run_id, {ENDS_TAG: "newer definitions of the source are loaded"})
    if alive:
        life_text = f": {life.text}" if life and life.run_id == alive[0].run_id else ""
        return f"run {alive[0].run_id[:8]} is at work{life_text}"
    pause = _pause(instance.get_run_records(dg.RunsFilter(job_name=job_name(source)), limit=_RUNS_LOOKED_AT), now=now)
    return f"the last run failed, the next one starts in {pause:.0f} s" if pause > 0 else ""


def _is_gone(record: dg.RunRecord, life: SignOfLife | None, *, now: float) -> bool:
    # By its own signs. One that has not begun leaves none: Dagster's monitoring looks after that.
    if record.start_time is None:
        return False
    own = life.time if life and life.run_id == record.dagster_run.run_id else record.start_time
    return now - max(own, record.start_time) > _SILENT_SECONDS


def _pause(records: Sequence[dg.RunRecord], *, now: float) -> float:
    """Seconds left of the pause after the failures in a row that came last: 5, 10, 20 … at most 300."""
    failures = 0
    for record in records:
        if record.dagster_run.status != dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
    if not failures:
        return 0.0
    pause = min(_FIRST_PAUSE_SECONDS * 2 ** (failures - 1), _LONGEST_PAUSE_SECONDS)
    return (records[0].end_time or now) + pause - now
