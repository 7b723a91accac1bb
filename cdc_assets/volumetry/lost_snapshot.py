"""A first snapshot that a connector has begun, and gone on without: no row of before comes, and later changes look as ever.

Debezium stores an empty offset with its notification that a snapshot begins (connectors.first_snapshot). Killed or failed before
its first table, it skips the snapshot at its next start, and says so. A snapshot that was killed later begins anew. One that
was asked for by a signal has named a table by then, and whoever has asked for it is told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets import names
from cdc_assets.connectors.notifications import FINE, INCREMENTAL, INITIAL, Notification
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.kafka import KafkaCluster, TopicState

# Of one moment: a snapshot begins, then its tables are read, then it ends; or none begins.
_ORDER = ("STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED", "ABORTED", "SKIPPED")


@dataclass(frozen=True)
class LostSnapshot:
    """When the newest that was lost began (0: none was), and when each table (`schema.table`) was last read whole."""

    began_ms: int = 0
    read_ms: Mapping[str, int] = field(default_factory=dict)

    def tables(self, source: BaseSource) -> list[Table]:
        """Those of which no row of the time before has come."""
        return [table for table in source.tables if self.read_ms.get(".".join(table.id), 0) < self.began_ms]

    def message(self, source: BaseSource, table: Table) -> str:
        """What is wrong, and the command that reads the table."""
        began = dt.datetime.fromtimestamp(self.began_ms / 1000, dt.timezone.utc)
        return (
            f"the first snapshot of connector {names.connector_name(source)}, begun {began:%Y-%m-%d %H:%M:%S} UTC, was never "
            f"completed, and the connector has gone on without it: rows of before are missing; ./cdc snapshot {source.name} "
            f"{table.name} reads them"
        )


def read_lost_snapshot(core: KafkaCluster, source: BaseSource) -> LostSnapshot:
    """What the connector's notifications tell, as far as they are kept."""
    if source.captured is None or source.captured.capture.snapshot != "initial":
        return LostSnapshot()
    topic = names.notification_topic(source)
    state = core.states([topic]).get(topic)
    if state is None:
        return LostSnapshot()
    records = list(core.records(topic, state.ranges))
    oldest: dict[int, int] = {}
    for record in records:
        oldest.setdefault(record.partition, record.timestamp)
    since = _whole_since(state, oldest)
    return lost_snapshot([Notification.of(record) for record in records if since is not None and record.timestamp >= since])


def lost_snapshot(said: Sequence[Notification]) -> LostSnapshot:
    """From all notifications of a time, in any order."""
    began = lost = before = 0
    read: dict[str, int] = {}
    for each in sorted((each for each in said if each.type in _ORDER), key=lambda each: (each.at_ms, _ORDER.index(each.type))):
        if each.table and each.data.get("status") in FINE and _is_whole(each):
            read[each.table] = each.at_ms
        if each.aggregate != INITIAL:
            continue
        if each.type == "STARTED":
            began, before = each.at_ms, lost
        elif each.type == "SKIPPED":
            lost, began = began or lost, 0
        elif each.type != "ABORTED":
            # It goes on: what was skipped meanwhile is another connector's (onboarding has one beside the source's own).
            began, lost = 0, before
    return LostSnapshot(lost, read)


def _is_whole(scan: Notification) -> bool:
    """Heals read some rows of a table; all else reads it whole."""
    return scan.aggregate == INITIAL or (scan.aggregate == INCREMENTAL and not scan.id.startswith("heal-"))


def _whole_since(state: TopicState, oldest: Mapping[int, int]) -> int | None:
    """From when on nothing is missing: where retention has removed records, from the oldest that is left; None: never."""
    cut: Collection[int] = [partition for partition, (begin, _) in state.ranges.items() if begin]
    return max((oldest[p] for p in cut), default=0) if all(p in oldest for p in cut) else None
