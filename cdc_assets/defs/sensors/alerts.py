"""Tells each channel of CDC_ALERTS what went red or green and which runs failed, once; it remembers by its cursor.

A channel that does not take a message is told again at the next tick, and the others are not.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg

from cdc_assets import settings
from cdc_assets.alerts.changes import FailedRun, ToldChanges, as_told, changes
from cdc_assets.alerts.channels import VARIABLE, Channel, load_channels
from cdc_assets.defs.runbook import runbook
from cdc_assets.defs.step_failures import step_failures
from cdc_assets.errors import AlertsError
from cdc_assets.quantity import quantity
from cdc_assets.resources.dagster_answers import DagsterAnswers, DagsterSilentError
from cdc_assets.volumetry.check_verdicts import CheckVerdict, check_verdicts

_TICK_SECONDS = 30
_COMMAND = re.compile(r"`(cdc [^`]+)`")


def build_alert_sensors() -> list[dg.SensorDefinition]:
    """One for all sources; none where no channels are named."""
    named = settings.lookup(VARIABLE)
    if not named:
        return []

    @dg.sensor(
        name="alerts",
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells what went red or green, and which runs failed (docs/how-to/alerts.md).",
    )
    def alerts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        known = {name: as_told(each) for name, each in json.loads(context.cursor or "{}").items()}
        since = min((each.runs_up_to for each in known.values()), default=time.time())
        try:
            verdicts, runs = check_verdicts(DagsterAnswers()), runs_failed_since(context.instance, since)
        except DagsterSilentError as error:
            # As a stack starts, the daemon ticks before the webserver answers. The cursor stays, so nothing is lost.
            return dg.SensorResult(skip_reason=f"nothing told yet, told at a later tick: {error}", cursor=context.cursor)
        found, away = tell(load_channels(Path(named)), known, verdicts, runs, now=time.time())
        for reason in away:
            context.log.error("%s; told again at the next tick", reason)
        said = f"{quantity(len(away), 'channel')} did not take the message: {'; '.join(away)}" if away else None
        cursor = json.dumps({name: asdict(each) for name, each in found.items()})
        return dg.SensorResult(skip_reason=said or "told what was new", cursor=cursor)

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
    found, away = dict[str, ToldChanges](), list[str]()
    for channel in channels:
        before = known.get(channel.name, ToldChanges(runs_up_to=now))
        alerts, after = changes(verdicts, runs, before, mend=mend_command, page=page)
        found[channel.name] = after
        try:
            if alerts:
                channel.send(alerts)
        except AlertsError as error:
            away.append(str(error))
            found[channel.name] = before
    return found, away


def mend_command(verdict: CheckVerdict) -> str:
    """The first command of the check's section of docs/reference/checks.md, for its source and table; else where that page is."""
    said = runbook(verdict.name)
    text = getattr(said, "md_str", None) or str(said.value)
    mends = text.partition("**what mends it**")[2] or text
    command = _COMMAND.search(mends)
    if command is None:
        return "cdc status; docs/reference/checks.md"
    layer, source, last = verdict.asset
    words = {"SOURCE": source, "TABLE": last.removeprefix(f"{layer}_")}
    return re.sub(r"\b(SOURCE|TABLE)\b", lambda found: words[found[0]], command[1])


def runs_failed_since(instance: dg.DagsterInstance, since: float) -> list[FailedRun]:
    """Those that ended as failures at or behind a time (epoch seconds), oldest first."""
    asked = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], updated_after=datetime.fromtimestamp(since, timezone.utc))
    found = []
    for record in instance.get_run_records(asked):
        if record.end_time is not None and record.end_time >= since:
            run = record.dagster_run
            found.append(FailedRun(run.run_id, run.job_name, record.end_time, _reason(instance, run.run_id)))
    return sorted(found, key=lambda run: run.at)


def _reason(instance: dg.DagsterInstance, run_id: str) -> str:
    """Of its first failed step: the error at the bottom, first line."""
    failures = step_failures(instance, run_id)
    return f"{failures[0][0]}: {failures[0][1]}".splitlines()[0] if failures else ""
