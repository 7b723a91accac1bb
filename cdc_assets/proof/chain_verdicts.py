"""What the checks of every chain say: each one's latest evaluation, which have not run, and when the rows of a table were
compared last, up to which place of the source's log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.registry.display_text import prose_of_markdown
from cdc_assets.registry.names import ASSET_LAYERS, OF_SOURCE, asset_path

PASSED, WARNED, FAILED, NOT_RUN = "passed", "warned", "failed", "not run"
_EVALUATION = "status timestamp runId stepKey evaluation { severity description }"
_LATEST = f"""{{ assetNodes {{ assetKey {{ path }} assetChecksOrError {{ ... on AssetChecks {{ checks {{
  name executionForLatestMaterialization {{ {_EVALUATION} }} }} }} }} }} }}"""
# A run that is under way has planned each of its checks, and one that has failed has no evaluation; what was evaluated before
# lies behind that.
_BACK = 5
_ENDED = ("SUCCEEDED", "FAILED", "EXECUTION_FAILED")
CheckKey = tuple[tuple[str, ...], str]
Execution = Mapping[str, Any]


@dataclass(frozen=True)
class CheckVerdict:
    """One check of one asset; `at` in epoch seconds, None where it has not run."""

    asset: tuple[str, ...]
    name: str
    state: str
    description: str = ""
    at: float | None = None

    @property
    def place(self) -> str:
        """The asset and its check, as `silver/bank/silver_accounts reconciled`."""
        return f"{'/'.join(self.asset)} {self.name}"

    def to_json(self) -> dict[str, Any]:
        """For `cdc status -o json`."""
        return {**asdict(self), "asset": "/".join(self.asset)}


def verdict(
    asset: Sequence[str], name: str, *, passed: bool, warns: bool, description: str, at: float | None = None
) -> CheckVerdict:
    """Of one evaluation; `warns`: its severity is a warning."""
    state = PASSED if passed else WARNED if warns else FAILED
    return CheckVerdict(tuple(asset), name, state, description, at)


def check_verdicts(dagster: DagsterAnswers) -> list[CheckVerdict]:
    """Every check of the chains in the definitions that Dagster has loaded.

    One failing check fails its table, whatever else passed: `cdc up`, `cdc status` and `cdc wait` read the same verdicts.

    Raises:
        ServiceError: it cannot be asked.
    """
    latest: dict[CheckKey, Execution | None] = {}
    for node in dagster.ask(_LATEST)["assetNodes"]:
        asset = tuple(node["assetKey"]["path"])
        if asset[0] in (*ASSET_LAYERS, *OF_SOURCE) and len(asset) == 3:
            for check in node["assetChecksOrError"].get("checks", ()):
                latest[asset, check["name"]] = check["executionForLatestMaterialization"]
    begun = _steps_begun(dagster, latest.values())
    # An asset that was materialized since has no evaluation of its newest state, and a run that failed before the check has none
    # at all: the one before still says what was found.
    earlier = _earlier(dagster, [key for key, execution in latest.items() if not _says(execution, begun)])
    begun |= _steps_begun(dagster, (execution for executions in earlier.values() for execution in executions))
    latest |= {
        key: next((execution for execution in executions if _says(execution, begun)), None) for key, executions in earlier.items()
    }
    return [_verdict(key, execution) for key, execution in latest.items()]


def _earlier(dagster: DagsterAnswers, keys: Sequence[CheckKey]) -> dict[CheckKey, list[Execution]]:
    if not keys:
        return {}
    queries = []
    for number, (asset, name) in enumerate(keys):
        chosen = f"assetKey: {{path: {json.dumps(asset)}}}, checkName: {json.dumps(name)}, limit: {_BACK}"
        queries.append(f"c{number}: assetCheckExecutions({chosen}) {{ {_EVALUATION} }}")
    answer = dagster.ask(f"{{ {' '.join(queries)} }}")
    return {key: answer[f"c{number}"] for number, key in enumerate(keys)}


def _steps_begun(dagster: DagsterAnswers, executions: Iterable[Execution | None]) -> set[tuple[str, str]]:
    """Of those that ended without an evaluation: run and step, where the step has begun at all."""
    runs = sorted(
        {
            execution["runId"]
            for execution in executions
            if execution and execution["status"] in _ENDED and not execution["evaluation"]
        }
    )
    if not runs:
        return set()
    steps = "... on Run { runId stepStats { stepKey status } }"
    queries = [f"r{number}: runOrError(runId: {json.dumps(run)}) {{ {steps} }}" for number, run in enumerate(runs)]
    answer = dagster.ask(f"{{ {' '.join(queries)} }}")
    stats = [(run["runId"], step) for run in answer.values() for step in run.get("stepStats", ())]
    return {(run, step["stepKey"]) for run, step in stats if step["status"] not in (None, "SKIPPED")}


def _says(execution: Execution | None, begun: Set[tuple[str, str]]) -> bool:
    """Whether it has ended, with an evaluation or in its own step."""
    return (
        execution is not None
        and execution["status"] in _ENDED
        and (execution["evaluation"] is not None or (execution["runId"], execution["stepKey"]) in begun)
    )


def _verdict(key: CheckKey, execution: Execution | None) -> CheckVerdict:
    if execution is None:
        return CheckVerdict(*key, NOT_RUN)
    evaluation = execution["evaluation"]
    if evaluation is None:
        return CheckVerdict(*key, FAILED, "its run ended without a result", execution["timestamp"])
    return verdict(
        *key,
        passed=execution["status"] == "SUCCEEDED",
        warns=evaluation["severity"] == "WARN",
        description=prose_of_markdown(evaluation["description"] or ""),
        at=execution["timestamp"],
    )


def verdicts_of_table(verdicts: Iterable[CheckVerdict], source: str, table: str) -> list[CheckVerdict]:
    """Those of the table's own assets."""
    return [
        verdict
        for verdict in verdicts
        if verdict.asset[0] != "connector" and verdict.asset == asset_path(verdict.asset[0], source, table)
    ]


def summary(verdicts: Iterable[CheckVerdict]) -> str:
    """`pass`, `2 failed`, `pass, 1 warns`, `pass, 3 not run`, `not run`; empty where there is no check."""
    states = [verdict.state for verdict in verdicts]
    failed, warned, missing = (states.count(state) for state in (FAILED, WARNED, NOT_RUN))
    if not states or missing == len(states):
        return "not run" if states else ""
    words = [f"{failed} failed"] if failed else ["pass"]
    words += [f"{warned} warn"] if warned else []
    words += [f"{missing} not run"] if missing else []
    return ", ".join(words)


CHECK = "reconciled"
AT_KEY, POSITION_KEY, PART_KEY = "cdc/compared_at", "cdc/compared_up_to", "cdc/compared_part"
WHOLE = "1/1"
_ENTRIES = """evaluation { timestamp metadataEntries { label
  ... on TextMetadataEntry { text } ... on TimestampMetadataEntry { timestamp } } }"""
_LONG_SECONDS = 48 * 3600.0
"""Twice the slowest rhythm that nobody has declared."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class RowsCompared:
    """The last comparison: `at` in epoch seconds, the `position` of the source's log, and which `part` of a large table.

    The evaluations of the check `reconciled` tell it. One that could not compare repeats what the last one that could has told.
    What `cdc reconcile` finds is in no evaluation, so it does not count here.
    """

    at: float
    position: str = ""
    part: str = WHOLE

    def to_json(self) -> dict[str, Any]:
        """For `cdc status -o json`."""
        return asdict(self)

    def is_long_ago(self, now: float) -> bool:
        """Whether two days and more have passed."""
        return now - self.at >= _LONG_SECONDS


def of_metadata(metadata: Mapping[str, Any], at: float) -> RowsCompared | None:
    """What an evaluation made `at` tells; None: the rows were never compared."""
    if AT_KEY in metadata:
        return RowsCompared(float(metadata[AT_KEY]), str(metadata.get(POSITION_KEY, "")), str(metadata.get(PART_KEY, WHOLE)))
    if "cdc/error" in metadata or "cdc/share" not in metadata:
        return None
    return RowsCompared(at, str(metadata.get("cdc/source_lsn", "")), str(metadata["cdc/share"]))


def last_comparisons(dagster: DagsterAnswers, verdicts: Sequence[CheckVerdict]) -> dict[tuple[str, ...], RowsCompared]:
    """By silver's asset; one that is not there was never compared. Raises ServiceError: it cannot be asked."""
    assets = [verdict.asset for verdict in verdicts if verdict.name == CHECK]
    if not assets:
        return {}
    queries = []
    for number, asset in enumerate(assets):
        chosen = f"assetKey: {{path: {json.dumps(asset)}}}, checkName: {json.dumps(CHECK)}, limit: {_BACK}"
        queries.append(f"c{number}: assetCheckExecutions({chosen}) {{ {_ENTRIES} }}")
    answer = dagster.ask(f"{{ {' '.join(queries)} }}")
    newest = {asset: _newest(answer[f"c{number}"]) for number, asset in enumerate(assets)}
    return {asset: compared for asset, compared in newest.items() if compared is not None}


def _newest(executions: Sequence[Mapping[str, Any]]) -> RowsCompared | None:
    for evaluation in (execution["evaluation"] for execution in executions):
        if evaluation is not None:
            entries = {e["label"]: e.get("text", e.get("timestamp")) for e in evaluation["metadataEntries"]}
            return of_metadata(entries, float(evaluation["timestamp"]))
    return None


def comparison_of_table(compared: Mapping[tuple[str, ...], RowsCompared], source: str, table: str) -> RowsCompared | None:
    """That of silver's asset of the table."""
    return compared.get(asset_path("silver", source, table))


def verdict_text(verdicts: Sequence[CheckVerdict], compared: RowsCompared | None, now: float | None = None) -> str:
    """The summary; that of a table which passes says when its rows were compared: `pass, rows compared 3 h ago`."""
    text = summary(verdicts)
    if not text.startswith("pass"):
        return text
    if compared is None:
        return f"{text}, rows never compared"
    rows = "rows" if compared.part == WHOLE else "a part of the rows"
    return f"{text}, {rows} compared {_age((time.time() if now is None else now) - compared.at)} ago"


def _age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
