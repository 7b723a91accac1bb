"""What the checks of every chain say: each one's latest evaluation, and which have not run.

One failing check fails its table, whatever else passed: `cdc up`, `cdc status` and `cdc wait` read the same verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.names import ASSET_LAYERS, OF_SOURCE, asset_path
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.shown_text import prose_of_markdown

PASSED, WARNED, FAILED, NOT_RUN = "passed", "warned", "failed", "not run"
_EVALUATION = "status timestamp runId stepKey evaluation { severity description }"
_LATEST = f"""{{ assetNodes {{ assetKey {{ path }} assetChecksOrError {{ ... on AssetChecks {{ checks {{
  name executionForLatestMaterialization {{ {_EVALUATION} }} }} }} }} }} }}"""
# A run that is under way has planned each of its checks; what was evaluated before lies behind that.
_BACK = 5
_ENDED = ("SUCCEEDED", "FAILED", "EXECUTION_FAILED")
Key = tuple[tuple[str, ...], str]
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

    Raises:
        DagsterAwayError: it cannot be asked.
    """
    latest: dict[Key, Execution | None] = {}
    for node in dagster.ask(_LATEST)["assetNodes"]:
        asset = tuple(node["assetKey"]["path"])
        if asset[0] in (*ASSET_LAYERS, *OF_SOURCE) and len(asset) == 3:
            for check in node["assetChecksOrError"].get("checks", ()):
                latest[asset, check["name"]] = check["executionForLatestMaterialization"]
    begun = _steps_begun(dagster, latest.values())
    # An asset that was materialized since has no evaluation of its newest state, and a run that failed before the check has none
    # at all: the one before still says what was found.
    earlier = _earlier(dagster, [key for key, found in latest.items() if not _says(found, begun)])
    begun |= _steps_begun(dagster, (found for each in earlier.values() for found in each))
    latest |= {key: next((found for found in each if _says(found, begun)), None) for key, each in earlier.items()}
    return [_verdict(key, found) for key, found in latest.items()]


def _earlier(dagster: DagsterAnswers, keys: Sequence[Key]) -> dict[Key, list[Execution]]:
    if not keys:
        return {}
    asked = []
    for number, (asset, name) in enumerate(keys):
        chosen = f"assetKey: {{path: {json.dumps(asset)}}}, checkName: {json.dumps(name)}, limit: {_BACK}"
        asked.append(f"c{number}: assetCheckExecutions({chosen}) {{ {_EVALUATION} }}")
    answer = dagster.ask(f"{{ {' '.join(asked)} }}")
    return {key: answer[f"c{number}"] for number, key in enumerate(keys)}


def _steps_begun(dagster: DagsterAnswers, executions: Iterable[Execution | None]) -> set[tuple[str, str]]:
    """Of those that ended without an evaluation: run and step, where the step has begun at all."""
    runs = sorted({found["runId"] for found in executions if found and found["status"] in _ENDED and not found["evaluation"]})
    if not runs:
        return set()
    steps = "... on Run { runId stepStats { stepKey status } }"
    asked = [f"r{number}: runOrError(runId: {json.dumps(run)}) {{ {steps} }}" for number, run in enumerate(runs)]
    answer = dagster.ask(f"{{ {' '.join(asked)} }}")
    stats = [(found["runId"], step) for found in answer.values() for step in found.get("stepStats", ())]
    return {(run, step["stepKey"]) for run, step in stats if step["status"] not in (None, "SKIPPED")}


def _says(found: Execution | None, begun: Set[tuple[str, str]]) -> bool:
    """Whether it has ended, with an evaluation or in its own step."""
    return (
        found is not None
        and found["status"] in _ENDED
        and (found["evaluation"] is not None or (found["runId"], found["stepKey"]) in begun)
    )


def _verdict(key: Key, found: Execution | None) -> CheckVerdict:
    if found is None:
        return CheckVerdict(*key, NOT_RUN)
    told = found["evaluation"]
    if told is None:
        return CheckVerdict(*key, FAILED, "its run ended without a result", found["timestamp"])
    return verdict(
        *key,
        passed=found["status"] == "SUCCEEDED",
        warns=told["severity"] == "WARN",
        description=prose_of_markdown(told["description"] or ""),
        at=found["timestamp"],
    )


def of_table(verdicts: Iterable[CheckVerdict], source: str, table: str) -> list[CheckVerdict]:
    """Those of the table's own assets."""
    return [each for each in verdicts if each.asset[0] != "connector" and each.asset == asset_path(each.asset[0], source, table)]


def summary(verdicts: Iterable[CheckVerdict]) -> str:
    """`pass`, `2 failed`, `pass, 1 warns`, `pass, 3 not run`, `not run`; empty where there is no check."""
    states = [each.state for each in verdicts]
    failed, warned, missing = (states.count(state) for state in (FAILED, WARNED, NOT_RUN))
    if not states or missing == len(states):
        return "not run" if states else ""
    words = [f"{failed} failed"] if failed else ["pass"]
    words += [f"{warned} warn"] if warned else []
    words += [f"{missing} not run"] if missing else []
    return ", ".join(words)
