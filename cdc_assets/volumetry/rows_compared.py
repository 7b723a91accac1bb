"""When the rows of a table were compared last, and up to which place of the source's log: it is part of what its checks say.

The evaluations of the check `reconciled` tell it. One that could not compare repeats what the last one that could has told.
What `cdc reconcile` finds is in no evaluation, so it does not count here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.names import asset_path
from cdc_assets.resources.dagster_answers import DagsterAnswers
from cdc_assets.volumetry.check_verdicts import CheckVerdict, summary

CHECK = "reconciled"
AT_KEY, POSITION_KEY, PART_KEY = "cdc/compared_at", "cdc/compared_up_to", "cdc/compared_part"
WHOLE = "1/1"
_ENTRIES = """evaluation { timestamp metadataEntries { label
  ... on TextMetadataEntry { text } ... on TimestampMetadataEntry { timestamp } } }"""
# A run that is under way has planned the check, and one that has failed has no evaluation.
_BACK = 5
_LONG_SECONDS = 48 * 3600.0
"""Twice the slowest rhythm that nobody has declared."""
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class RowsCompared:
    """The last comparison: `at` in epoch seconds, the `position` of the source's log, and which `part` of a large table."""

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
    """By silver's asset; one that is not there was never compared.

    Raises:
        DagsterAwayError: it cannot be asked.
    """
    assets = [each.asset for each in verdicts if each.name == CHECK]
    if not assets:
        return {}
    asked = []
    for number, asset in enumerate(assets):
        chosen = f"assetKey: {{path: {json.dumps(asset)}}}, checkName: {json.dumps(CHECK)}, limit: {_BACK}"
        asked.append(f"c{number}: assetCheckExecutions({chosen}) {{ {_ENTRIES} }}")
    answer = dagster.ask(f"{{ {' '.join(asked)} }}")
    found = {asset: _newest(answer[f"c{number}"]) for number, asset in enumerate(assets)}
    return {asset: compared for asset, compared in found.items() if compared is not None}


def _newest(executions: Sequence[Mapping[str, Any]]) -> RowsCompared | None:
    for evaluation in (each["evaluation"] for each in executions):
        if evaluation is not None:
            entries = {e["label"]: e.get("text", e.get("timestamp")) for e in evaluation["metadataEntries"]}
            return of_metadata(entries, float(evaluation["timestamp"]))
    return None


def of_table(compared: Mapping[tuple[str, ...], RowsCompared], source: str, table: str) -> RowsCompared | None:
    """That of silver's asset of the table."""
    return compared.get(asset_path("silver", source, table))


def verdict_text(verdicts: Sequence[CheckVerdict], compared: RowsCompared | None, now: float | None = None) -> str:
    """The summary; that of a table which passes says when its rows were compared: `pass, rows compared 3 h ago`."""
    told = summary(verdicts)
    if not told.startswith("pass"):
        return told
    if compared is None:
        return f"{told}, rows never compared"
    rows = "rows" if compared.part == WHOLE else "a part of the rows"
    return f"{told}, {rows} compared {_age((time.time() if now is None else now) - compared.at)} ago"


def _age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
