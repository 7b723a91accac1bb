"""Restarts what has failed of a source's connectors, with growing pauses; gives up loudly.

What is remembered lies in the sensor's cursor. When it gives up, the connector's check turns red with the reason; the next
rounds of checks find the connector as it is, until it runs: `cdc restart` or a new config.
"""

import json
import time
from collections.abc import Callable
from functools import partial

import dagster as dg

from cdc_assets import names
from cdc_assets.connectors.auto_restart import MAX_RESTARTS, RestartState, decide
from cdc_assets.connectors.first_snapshot import restart_connector
from cdc_assets.connectors.inventory import connector_owners
from cdc_assets.defs.checks.result import check_result, evaluation_of
from cdc_assets.defs.checks.volumetry import check_key
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.errors import CdcAssetsError, ConnectError, MissingAddressError
from cdc_assets.identity.look import refuse_other
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.platform import Platform

_TICK_SECONDS = 30
# Dagster ends a tick after 60 s, and forgets its cursor then, with what was restarted and when.
_ANSWER_SECONDS = 5.0


def build_restart_sensor(source: BaseSource) -> dg.SensorDefinition:
    """One per source: all of its connectors."""

    @dg.sensor(
        name=f"restarts_{source.name}",
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Restarts failed connectors after n² + n minutes, {MAX_RESTARTS} times.",
    )
    def restarts(context: dg.SensorEvaluationContext, platform: PlatformResource) -> dg.SensorResult:
        return evaluate(source, platform, context.cursor, now=time.time(), say=context.log.warning)

    return restarts


def evaluate(source: BaseSource, platform: Platform, cursor: str | None, *, now: float, say: object = None) -> dg.SensorResult:
    """One tick. Nothing is requested: a restart needs no run. A cluster that does not answer is asked once."""
    known = {name: RestartState(**state) for name, state in json.loads(cursor or "{}").items()}
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
            guard = partial(refuse_other, platform, source) if captures else None
            known[name], line, alert = _one(connect, name, known.get(name, RestartState()), now, guard)
        except CdcAssetsError as error:
            if isinstance(error, ConnectError) and time.monotonic() - began >= _ANSWER_SECONDS:
                away.add(cluster)
            away |= {cluster} if isinstance(error, MissingAddressError) else set()
            lines.append(str(error))
            continue
        lines += [line] if line else []
        # A source of topics has no connector asset; `nothing_lost` of its mirrors says it.
        if alert and source.captured:
            key = check_key("connector", source)
            metadata = {"cdc/connector": name, "cdc/restarts": known[name].restarts}
            alerts.append(evaluation_of(check_result(key, False, line, metadata)))
    for line in lines:
        if callable(say):
            say(line)
    kept = {name: state.to_json() for name, state in known.items() if state != RestartState()}
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
