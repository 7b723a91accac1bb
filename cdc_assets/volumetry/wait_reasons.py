"""Why tables are behind, as Dagster knows it: what would carry them is off, dead, failing, or does not know them.

One question to the webserver for all tables, and one more for each run that has failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets.names import LAYERS, asset_path
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.volumetry.caught_up import Behind
from cdc_assets.volumetry.check_verdicts import FAILED, check_verdicts

_RUNS = 24
_TABLES_TOLD = 5
_CARRIED_BY = {"cdc/tables": frozenset(LAYERS) - {"backup"} | {"history"}, "cdc/backups": frozenset({"backup"})}
"""The tag by which a sensor's run names its tables, and the layers that it carries."""
_UNDER_WAY = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_STATE = """
instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } }
repositoriesOrError { ... on RepositoryConnection { nodes { sensors { name sensorState { status
  ticks(limit: 1) { skipReason } } } } } }
"""
_FAILURE = """query($run: ID!) { logsForRun(runId: $run, limit: 1000) { ... on EventConnection { events { __typename
  ... on ExecutionStepFailureEvent { stepKey error { message causes { message } } }
  ... on RunFailureEvent { error { message causes { message } } } } } } }"""
Answer = Mapping[str, Any]


def wait_reasons(dagster: DagsterAnswers, behind: Sequence[Behind]) -> list[str]:
    """What stands in the way of these tables, the reason that all share first; empty where everything is on its way.

    Raises:
        DagsterAwayError: nothing can be asked.
    """
    sources = sorted({late.source for late in behind})
    answer = dagster.ask(_question(sources, behind))
    reasons = list(_of_daemon(answer))
    reasons += _of_sensors(answer, sources)
    missing = _absent_assets(answer, behind)
    reasons += [
        f"Dagster has no asset {name} loaded: reload its code location (./cdc onboard does, and ./cdc up)" for name in missing
    ]
    for number, source in enumerate(sources):
        for tag, layers in _CARRIED_BY.items():
            tables = [late.table for late in behind if late.source == source and late.layer in layers]
            reasons += _of_runs(dagster, answer[f"r{number}"]["results"], tag, tables)
    return [*reasons, *_of_checks(dagster, behind)]


def _asset(late: Behind) -> list[str]:
    return [*asset_path("silver" if late.layer == "history" else late.layer, late.source, late.table)]


def _question(sources: Sequence[str], behind: Sequence[Behind]) -> str:
    keys = ", ".join(f"{{path: {json.dumps(_asset(late))}}}" for late in behind)
    runs = " ".join(
        f'r{number}: runsOrError(filter: {{tags: [{{key: "cdc/source", value: {json.dumps(source)}}}]}}, limit: {_RUNS}) '
        "{ ... on Runs { results { runId status tags { key value } } } }"
        for number, source in enumerate(sources)
    )
    return f"{{ {_STATE} assetNodes(assetKeys: [{keys}]) {{ assetKey {{ path }} }} {runs} }}"


def _of_daemon(answer: Answer) -> Iterable[str]:
    daemons = answer["instance"]["daemonHealth"]["allDaemonStatuses"]
    silent = [daemon["daemonType"] for daemon in daemons if daemon["required"] and not daemon["healthy"]]
    if silent:
        yield f"dagster-daemon has no heartbeat ({', '.join(silent)}), nothing is asked for: ./cdc logs dagster-daemon"


def _of_sensors(answer: Answer, sources: Sequence[str]) -> Iterable[str]:
    found = {
        sensor["name"]: sensor["sensorState"]
        for repository in answer["repositoriesOrError"].get("nodes", ())
        for sensor in repository["sensors"]
    }
    for source in sources:
        name = f"offsets_{source}"
        if (state := found.get(name)) is None:
            yield f"Dagster has no sensor {name} loaded: it does not know the source yet; reload its code location"
        elif state["status"] != "RUNNING":
            yield f"sensor {name} is {state['status']}: switch it on in Dagster under Automation"
        else:
            # A pause after failures, a topic that is not there: its own words.
            yield from (f"sensor {name} asks for no run: {tick['skipReason']}" for tick in state["ticks"] if tick["skipReason"])
        # Only a source in continuous mode has one.
        keeper = found.get(f"keep_continuous_{source}", {"status": "RUNNING"})["status"]
        if keeper != "RUNNING":
            yield f"sensor keep_continuous_{source} is {keeper}: switch it on in Dagster under Automation"


def _absent_assets(answer: Answer, behind: Sequence[Behind]) -> list[str]:
    known = {tuple(node["assetKey"]["path"]) for node in answer["assetNodes"]}
    return ["/".join(_asset(late)) for late in behind if tuple(_asset(late)) not in known]


def _of_runs(dagster: DagsterAnswers, runs: Sequence[Answer], of_tables: str, tables: Sequence[str]) -> Iterable[str]:
    """Of each run that failed last for one of the tables, which its tag names: its reason, once."""
    told: dict[str, list[str]] = {}
    for table in tables:
        for run in runs:
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            if table not in tags.get(of_tables, "").split(",") or run["status"] in _UNDER_WAY:
                continue
            if run["status"] == "FAILURE":
                told.setdefault(run["runId"], []).append(table)
            break
    for run_id, carried in told.items():
        yield f"the last run of {', '.join(carried)} failed: {_failure(dagster, run_id)}; {dagster.url}/runs/{run_id}"


def _failure(dagster: DagsterAnswers, run_id: str) -> str:
    events = dagster.ask(_FAILURE, run=run_id)["logsForRun"].get("events", ())
    failures = [event for event in events if event.get("error")]
    steps = [event for event in failures if event["__typename"] == "ExecutionStepFailureEvent"] or failures
    if not steps:
        return "its page says why"
    error = steps[0]["error"]
    root = error["causes"][-1] if error["causes"] else error
    # One that tells of several tables has a line for each.
    lines = [line.strip() for line in root["message"].strip().splitlines()]
    told = " ".join(lines[: 1 + _TABLES_TOLD] if lines and lines[0].endswith(":") else lines[:1])
    return f"{steps[0].get('stepKey', 'the run')}: {told or 'no reason given'}"


def _of_checks(dagster: DagsterAnswers, behind: Sequence[Behind]) -> Iterable[str]:
    """A red check of a layer before blocks the layer that is behind."""
    links = [layer for layer in LAYERS if layer not in ("connector", "ledger")]
    late = {asset_path(layer, each.source, each.table) for each in behind for layer in links}
    for found in check_verdicts(dagster):
        if found.state == FAILED and found.asset in late:
            yield f"{found.place} is red: {found.description}"
