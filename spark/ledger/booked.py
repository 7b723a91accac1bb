"""What a run of the ledger books of one table: its rows, and the place up to which it has counted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spark.ledger.ledger_commits import Counted
from spark.ledger.table_slice import TableSlice
from spark.ledger.topic_counts import TransportReach


@dataclass(frozen=True)
class Booked:
    """One table's part of a run: `rows` in panes.ARROW, and how many folds are `left` for the next commit."""

    rows: pa.Table
    counted: Counted
    left: int
    kept: str = ""
    """Why the topics were not counted anew, where that was asked."""


def place_behind(part: TableSlice, reached: TransportReach, newest: int) -> Counted:
    """Up to where the ledger has counted: in silver, and in the topics' transport. `newest` is the slice's newest event, in
    microseconds."""
    last = part.cut.last
    return Counted(
        silver_version=last.version,
        operation_id=last.operation_id,
        folded=last.topics,
        truncated=last.truncated,
        snapshot=last.snapshot,
        watermark=max(newest, part.before.watermark if part.before else 0),
        mirror_positions=reached.mirror_positions,
        topic_positions=reached.positions,
        topic_ids=reached.ids,
        uncounted=reached.uncounted,
        missing=reached.missing,
        unsettled="",
    )
