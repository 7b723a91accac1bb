"""Source rows = silver rows, at one snapshot of the source, under live writes, tolerance 0.

Silver is behind the source, so its count is carried forward instead of waiting for it:

1. silver's version and what it has folded (F) are read;
2. the source's rows are counted in one REPEATABLE READ transaction, with its `pg_current_snapshot()`;
3. a marker carries that moment to offsets of the mirrored topics (`log_position`);
4. silver's rows + creates - deletes of the records between F and those offsets whose transaction the snapshot
   sees must be the source's count. Records of transactions that it does not see are left out.

Rows marked as deleted (`_cdc_deleted`) do not count. Not seen by a count: rows that differ in value (the
reconciliation by checksum does that).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.resources.databases.catalogue import SourceSnapshot
from cdc_assets.resources.kafka import KafkaCluster


@dataclass(frozen=True)
class RowCount:
    """Both counts of one table at one snapshot, and the parts of silver's."""

    source_rows: int
    silver_rows: int
    silver_version: int | None
    in_flight: int
    uncountable: str | None
    snapshot: SourceSnapshot
    lsn: str

    @property
    def carried_rows(self) -> int:
        """Silver's rows carried forward to the snapshot."""
        return self.silver_rows + self.in_flight

    @property
    def equal(self) -> bool:
        """The counts are equal, and nothing stood in the way of counting."""
        return self.uncountable is None and self.carried_rows == self.source_rows


@dataclass(frozen=True)
class InFlight:
    """Change in the number of rows by records not folded yet; `uncountable` says why it cannot be told."""

    change: int
    uncountable: str | None = None


def count_in_flight(
    lake: KafkaCluster,
    topic: str,
    *,
    folded: Mapping[int, int],
    upto: Mapping[int, int],
    snapshot: SourceSnapshot,
    silver_is_empty: bool,
) -> InFlight:
    """Creates minus deletes among the committed records in `[folded, upto)` that the snapshot sees.

    A snapshot row (`r`) counts as a create while silver is empty; later it may or may not be a row that silver
    has already, so the count waits until it is folded.
    """
    change = 0
    ranges = {p: (folded.get(p, 0), end) for p, end in upto.items()}
    for record in lake.records(topic, ranges):
        if record.value is None:
            continue
        try:
            event = json.loads(record.value)
            op, place = event["op"], dict(event.get("source") or {})
        except (ValueError, KeyError, TypeError, AttributeError):
            return InFlight(0, f"{topic} partition {record.partition} offset {record.offset} is no change event")
        if op == "t":
            return InFlight(0, f"a TRUNCATE is on its way to silver ({topic}, offset {record.offset})")
        if op == "r":
            if not silver_is_empty:
                return InFlight(0, f"a snapshot is still on its way to silver ({topic}, offset {record.offset})")
            change += 1
        elif snapshot.sees_event(place):
            change += {"c": 1, "d": -1}.get(op, 0)
    return InFlight(change)
