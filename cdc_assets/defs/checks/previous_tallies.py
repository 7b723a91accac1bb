"""The tallies of a table's last `record_parity`, kept in the check's own metadata: a cache, never the truth."""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.defs.checks.evidence import TALLIES_KEY
from cdc_assets.volumetry.measure import EarlierCount
from cdc_assets.volumetry.tally import TopicTally

_LOOK_BACK = 10


def previous_tallies(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> EarlierCount | None:
    """Topic and mirror tallies of the last comparison that passed, or None: then both are counted from the start.

    Only of one that passed: a tally taken across a difference would carry it along.
    """
    passed = {AssetCheckExecutionRecordStatus.SUCCEEDED}
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOK_BACK, status=passed):
        evaluation = record.evaluation
        if evaluation is None or TALLIES_KEY not in evaluation.metadata:
            continue
        stored: Any = evaluation.metadata[TALLIES_KEY].value
        judged = stored.get("judged", True)
        return EarlierCount(TopicTally.from_json(stored["topic"]), TopicTally.from_json(stored["mirror"]), judged)
    return None
